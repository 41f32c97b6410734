"""From the accesses of followed CTAs to patterns of addresses for the whole grid, one set for each class of CTAs."""
