"""Steps of PyTorch recorded with no GPU: operations of torch and kernels of Inductor, for the GPU that is spoken of."""
