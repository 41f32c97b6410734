"""Copies by TMA: the descriptors of tensors in memory, who writes them, and the boxes that instructions copy."""
