"""Losses that torch's own kernels take: of images, of probabilities."""
