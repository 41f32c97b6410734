"""Layers of recurrent networks, which cuDNN runs whole."""
