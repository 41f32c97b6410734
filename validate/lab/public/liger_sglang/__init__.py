"""First round: kernels of liger, sglang, fla, mamba and others; half of them are blind."""
