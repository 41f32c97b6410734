"""Values that a step knows without a GPU."""
