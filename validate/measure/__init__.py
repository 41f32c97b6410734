"""Measures points in a GPU process that may die, and says what speaks against each measurement."""
