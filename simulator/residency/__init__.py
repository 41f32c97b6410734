"""What a launch takes of a GPU: registers, shared memory, CTAs per SM, room in L1, device memory."""
