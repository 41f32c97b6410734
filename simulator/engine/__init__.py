"""CTAs, L2 and HBM on one clock: launches and costs in, cycles and bytes out."""
