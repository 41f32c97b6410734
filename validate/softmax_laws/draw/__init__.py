"""Inputs drawn to be hard: rows of scores, values, and literals to print them by."""
