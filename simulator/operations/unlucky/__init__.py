"""What is unlucky about a step of PyTorch, and what would cure it; on plain values."""
