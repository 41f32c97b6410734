"""Kernels compiled ahead of time, without a GPU: registers, shared memory, machine code."""
