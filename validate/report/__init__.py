"""A validation for people: text, pictures, HTML, a page of the documentation."""
