"""What the kernels of attention's backward pass share: tiles, probabilities, and the oracle that judges them."""
