"""Choosing configurations where a kernel runs: `tilesight.autotune`, and a hook for Triton's own autotuner."""
