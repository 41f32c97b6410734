"""Steps of PyTorch as text: what their kernels take, and several modes and devices beside each other."""
