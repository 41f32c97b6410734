"""What threads hand each other through shared memory: which stores there are ever read."""
