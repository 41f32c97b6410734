"""Prices of operations on images, signals and volumes."""
