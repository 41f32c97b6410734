"""Families of operations, by torch's names: which kernels they launch on a GPU, and what bounds them."""
