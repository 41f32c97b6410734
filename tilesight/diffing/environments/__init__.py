"""Other Python environments that a side is recorded and compiled in: found by path, or made for a version of Triton."""
