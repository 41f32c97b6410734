"""SASS executed on arrays of threads: registers, predicates, memory, barriers, jumps, copies by TMA."""
