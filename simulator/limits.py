"""What all GPUs of CUDA have in common: sizes that code may count on, whatever the device. Each says its source."""

WARP_THREADS = 32
"""Threads of a warp (CUDA C++ Programming Guide, SIMT Architecture)."""
WARPGROUP_WARPS = 4
"""Warps of a warpgroup (PTX ISA, wgmma)."""
SUB_CORES = 4
"""Of an SM, each with warps of its own (whitepapers of all architectures from Volta to Blackwell)."""
SCOREBOARDS = 6
"""Of a warp: as many as the control bits of an instruction can name (`sass.decode`)."""
MAX_GRID = (1 << 31) - 1
"""CTAs of a grid along x (CUDA C++ Programming Guide, compute capabilities), and here of a grid in all."""
MAX_GRID_AXES = (MAX_GRID, 65_535, 65_535)
"""CTAs of a grid along x, y and z (the same)."""
MAX_CTA_THREADS = 1024
"""Threads of a CTA (the same)."""
OLDEST_CAPABILITY = (8, 0)
"""Oldest compute capability that the kernels are for (docs/kernels.md)."""
POINTER_BYTES = 8
"""An address in global memory: code is compiled for 64 bits [B]."""
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
