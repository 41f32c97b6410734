"""What a kernel does, recorded while it runs without a GPU."""
