"""Launches followed through machine code: paths of CTAs, what they touch, and the programs found in that."""
