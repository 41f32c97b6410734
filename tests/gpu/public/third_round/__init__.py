"""Cases of the third round: kernels that nothing was predicted or measured of before, more libraries among them."""
