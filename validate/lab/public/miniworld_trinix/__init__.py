"""Sixth round: kernels that none before launches, most of miniworld, fla, vllm and trinix; many of new libraries."""
