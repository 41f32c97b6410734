"""Cases of the second round: kernels and shapes that nothing was predicted or measured of before."""
