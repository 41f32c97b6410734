"""Vectors: distances between them, their norms, cross products, diagonals, complex numbers."""
