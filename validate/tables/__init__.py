"""Public tables of measured kernels, held against predictions."""
