"""Measures the numbers of a device file by microbenchmarks."""
