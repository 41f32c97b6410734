"""Configurations of a kernel: which ones are asked for, and where Triton's autotuner keeps its answers."""
