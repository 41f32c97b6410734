"""Seventh round: optimizers, losses, images, sound, graphs, ragged rows and backward passes; mostly new libraries."""
