"""Launches in plain data: a kernel of a cubin, its grid and its arguments, by whatever compiler it was made."""
