"""The families of cells: importing this enters all of their cells."""

import attention
import backward
import decode
import experts
import gemm
import rows
import runs

MODULES = (runs, gemm, decode, rows, attention, backward, experts)
FAMILIES = ("runs", "gemm", "decode", "rows", "attention", "backward_kv", "backward_q", "experts", "known")
EXPERIMENTS = FAMILIES[:1]
"""That which isolates a mechanism; the others are there to choose from."""
