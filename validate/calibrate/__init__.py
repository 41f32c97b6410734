"""Microbenchmarks in, a device file out."""
