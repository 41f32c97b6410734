"""From tensors to a running kernel: argument checks, the twin of a launch, what is missing here."""
