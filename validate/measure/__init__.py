"""A GPU process that may die: jobs in, measurements out, with what speaks against them."""
