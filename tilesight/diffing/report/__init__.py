"""What a change does, in words for people and pull requests, and as a page: both sides beside each other."""
