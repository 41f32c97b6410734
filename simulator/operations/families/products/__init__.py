"""Products of matrices by the vendors' libraries, and what is made of them."""
