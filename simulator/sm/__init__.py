"""Cycles of a step on one SM: from machine code, from kept figures, or estimated from tiles."""
