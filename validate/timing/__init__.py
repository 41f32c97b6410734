"""How long kernels run: samples, events, the SM clock, profiles."""
