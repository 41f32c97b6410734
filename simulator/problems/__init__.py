"""What is to be computed, and nothing about how: one module for each kind of problem."""
