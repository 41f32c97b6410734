"""Families of torch's operations, one module each: which kernels it launches on a GPU, and what bounds them."""
