"""What kernels of decoding share: where keys lie in a cache, the merge of splits, and the call."""
