"""The command line: `main`, and what its commands share."""
