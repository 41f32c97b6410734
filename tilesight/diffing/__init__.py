"""Two sides of a change: what a function launches before and after, matched, compared and judged."""
