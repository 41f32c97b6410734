"""Builds the library of compiled kernels that the simulator carries."""
