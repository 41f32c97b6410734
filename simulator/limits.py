"""What all GPUs of CUDA have in common: sizes that code may count on, whatever the device. Each says its source."""

WARP_THREADS = 32
"""Threads of a warp (CUDA C++ Programming Guide, SIMT Architecture)."""
WORD_BYTES = 4
"""A register of a thread, and a bank of shared memory (the same guide) [B]."""
SMEM_LINE_BYTES = 128
"""What shared memory moves in a cycle: 32 banks of a word (the same guide, compute capability 5.0 and newer) [B]."""
LINE_BYTES = 128
"""A line of L1 and L2, the unit of their tags (CUDA C++ Best Practices Guide, Coalesced Access) [B]."""
SECTOR_BYTES = 32
"""A sector of a line, the unit of transfer (the same) [B]."""
LINE_SECTORS = LINE_BYTES // SECTOR_BYTES
TMA_CAPABILITY = 9.0
"""Oldest compute capability with a tensor memory accelerator (CUDA C++ Programming Guide, Tensor Memory Access)."""
TMA_STRIDE_BYTES = 16
"""Rows of what TMA copies start at multiples of this (CUDA driver API, cuTensorMapEncodeTiled, globalStrides) [B]."""
TMA_BLOCK = 256
"""Rows and columns of the largest tile that one descriptor copies (the same, boxDim)."""
