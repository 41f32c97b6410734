"""Predicted times of kernels in tests: the pytest plugin of `pytest --tilesight`."""
