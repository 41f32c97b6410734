"""The compiled simulation of one SM: warps issue, wait, and use its pipes."""
