"""Predicted beside measured: points in, comparisons and a verdict out."""
