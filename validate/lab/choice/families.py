"""The families of cells: importing this enters all of their cells."""

import attention
import backward
import decode
import experts
import gemm
import loops
import rows
import runs

MODULES = (runs, loops, gemm, decode, rows, attention, backward, experts)
FAMILIES = ("runs", "loops", "gemm", "decode", "rows", "attention", "backward_kv", "backward_q", "experts", "known")
EXPERIMENTS = FAMILIES[:2]
"""Those that isolate a mechanism; the others are there to choose from."""
