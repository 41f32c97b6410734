"""Layers that a build of torch for CPUs runs otherwise than a GPU does: in other parts, or whole."""
