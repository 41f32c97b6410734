"""Predictions that are kept on disk, so that the same question is answered once."""
