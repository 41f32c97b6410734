"""What a change does, as a page for the browser: pictures of both sides and their source beside each other."""
