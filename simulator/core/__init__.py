"""Compiled loops: plain arrays, numbers and named tuples; only `engine`, `residency` and `sm` import them."""
