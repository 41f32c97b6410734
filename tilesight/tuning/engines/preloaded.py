"""Loaded once for all processes that predict: each would take a second of CPU for it."""

import gc

from ...simulator import predict_kernels as predict_kernels
from ...simulator.engine.engine import load_tables

load_tables()
gc.freeze()  # what is imported stays, and is shared by all that are forked
