"""What torch's compiler asks of a GPU while it compiles: times of choices and of operations, CUDA graphs; predicted."""
