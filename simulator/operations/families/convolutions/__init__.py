"""Convolutions: cuDNN's products, torch's own depthwise kernels, and the copies that layouts cost."""
