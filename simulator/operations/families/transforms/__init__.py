"""Fourier transforms of the vendor's library."""
