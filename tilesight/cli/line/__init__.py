"""The command line as a whole: which files it names, and its help under headings."""
