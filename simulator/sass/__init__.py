"""Compiled code as the SM runs it: decoded instructions, loops, pipes and latencies, and how often each block runs."""
