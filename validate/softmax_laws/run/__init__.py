"""The search for counter-examples, in this process or in one that may die, and its report."""
