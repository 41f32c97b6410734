"""Attention: by torch's back ends, and over pages of a cache as vLLM calls it."""
