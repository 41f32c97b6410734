"""Simulates CTAs, L2 and HBM on one clock: from launches and what their steps cost to cycles and bytes."""
