"""Launches of a user's function on a GPU: replayed one by one, timed and counted, and held against predictions."""
