"""Hardware counters, read by Nsight Compute."""
