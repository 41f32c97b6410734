"""Second round: kernels and shapes that nothing was predicted or measured of before, most of fla, sglang and mamba."""
