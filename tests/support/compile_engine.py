"""Compiles the engine and the simulation of an SM once, before processes of pytest-xdist would each do so.

python tests/support/compile_engine.py     most of a minute the first time, two seconds where they are on the disk
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine.sm_toys import Code, straight

from tilesight import AttentionProblem, simulate

for resolution in ("chunk", "line"):
    simulate(AttentionProblem(batch=1, heads=1, seqlen_q=64, seqlen_k=64, head_dim=64), resolution=resolution)
straight(Code().add())
