"""Holds predictions against measurements, point by point, and gives a verdict."""
