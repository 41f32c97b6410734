"""Third round: kernels that nothing was predicted or measured of before, most of vllm, fla and flag_gems."""
