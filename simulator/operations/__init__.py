"""Operations of PyTorch: what a step launches on its GPU, and what each takes; plain values, no torch."""
