"""Places and samples of values: sorted boundaries, ranks, draws."""
