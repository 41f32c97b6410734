"""Instructions that threads of torch's own kernels issue for an element: the same code runs on every GPU.

Each number was read off kernels of one NVIDIA H100 and of one H200, whose clocks and SMs are equal
(`validate/lab/torch_prices.py` names both sets of data, and prints how far off all are): time beyond what bytes take,
times SMs x issue x lanes x clock, rounded. Kind of all: fitted. Some are no instructions at all but latencies that
as many warps wait for as fit an SM; those change with SMs and clocks in the same way.
"""

INDEXED = 77.0
"""Of `elementwise_kernel` and `unrolled_elementwise_kernel`: index arithmetic of up to two dimensions, or casts."""
CAST = 50.0
"""More of them for casts while there are several operands."""
WELFORD = 38.0
"""Of variances and deviations in `reduce_kernel`."""
FURTHER_INDEX = 15.0
"""More of it for each dimension beyond two and each input beyond one."""
VECTORISED = 10.0
"""Of `vectorized_elementwise_kernel`: loads, stores and simple arithmetic."""
TRANSCENDENTAL = 35.0
"""The same with an exponential, an error function or a division. Values count too: SiLU of numbers with a deviation of
64 took an H200 124 us, where 66 are predicted (divisions of infinities take a longer way); with one of 1, an H100 took
as long as its bytes."""
TRANSCENDENTAL_BACKWARD = 50.0
"""The same of their gradients."""
SERIES = 120.0
"""The same of special functions that are series of dozens of terms: `i0` of 64 x 32,000 elements on one H200
(2026-11-28)."""
RANDOM = 65.0
"""Of a random number: dropout, `bernoulli_`, `normal_`."""
CAT = 140.0
"""Of `CatArrayBatchedCopy`, where pieces are not contiguous."""
CAT_ALIGNED = 45.0
"""Of `CatArrayBatchedCopy_alignedK_contig`: contiguous pieces whose slices are no multiples of 16 bytes; 14 million
elements of bf16 on one H100."""
ROLLED = 150.0
"""Of `roll_cuda_kernel`, which divides twice for each element: 19 million elements of bf16 on one H100."""
SCATTERED = 150.0
"""Of `index_elementwise_kernel`: `index_put_`, `index` of elements."""
ADDED = 260.0
"""Of additions to places that an index names: `index_add_`, gradients of an embedding."""
ADDED_SINGLE = 215.0
"""The same of float32, which one instruction adds, where bf16 is read, added in a word of two and compared: 69 million
elements at 4,000 places on one H200 (2026-11-28)."""
SORTED_ADDED = 70.0
"""The same where indices are sorted before (`indexing_backward_kernel`): gradients of 67 million elements."""
SOFTMAX_OF_WARP, SOFTMAX_OF_WARP_BACKWARD = 55.0, 85.0
"""Of `softmax_warp_forward` and `softmax_warp_backward`, where rows are filled up to powers of two; SOFTMAX_ROW: of
each thread of a row's warp, which agrees twice. Rows of 49 to 1,000 elements in functions on one H100."""
SOFTMAX_ROW = 35.0
SOFTMAX_IN_REGISTERS = 105.0
"""Of `cunn_SoftMaxForwardReg`."""
SOFTMAX = 58.0
"""Of `cunn_SoftMaxForward`, in shared memory or not, and its gradient."""
SOFTMAX_OUTER = 110.0
"""Of `cunn_SpatialSoftMaxForward`, three walks with two exponentials and a division: 20 million elements of fp32 and 17
million of fp16, four and 16 in a row, on one H100."""
NORM = 38.0
"""Of `vectorized_layer_norm_kernel`; of RMS norms, which need no mean, RMS_NORM: as they took a B200, where bytes take
less, 65,536 rows of 4,096 elements 167 us (a public report, launch counted)."""
RMS_NORM = 14.0
NORM_ROW = 270.0
"""The same of each thread for a row, in which all agree on moments, with divisions; of RMS norms RMS_ROW. Rows of
192 to 16,384 elements in functions and by themselves, which they meet by 8 and 5 % in the mean."""
RMS_ROW = 150.0
NORM_BACKWARD = 45.0
"""Of `layer_norm_grad_input_kernel_vectorized`."""
NORM_WEIGHTS_BACKWARD = 24.0
"""Of `GammaBetaBackwardCUDAKernelTemplate`; layer norms of 4,096 to 32,768 rows in training steps were read as well."""
BATCH_NORM = 70.0
"""Of products with factors of channels, in group and batch norms."""
CHANNELS_LAST_PRODUCT = 38.0
CHANNELS_LAST_STATISTICS = 115.0
"""Of batch norms whose channels lie together: products; moments, with a division for every few rows; CHANNELS_LAST_SUMS
of gradients, CHANNELS_LAST_GRADIENT of the input's. Images of 28 x 28 with 128 and 512 channels on one H100."""
CHANNELS_LAST_SUMS = 75.0
CHANNELS_LAST_GRADIENT = 50.0
REORDERED = 50.0
"""Of cuDNN's transposes between NCHW and NHWC; PADDED: of its copies to a multiple of channels, for each element that
is written."""
PADDED = 68.0
TRIANGLE = 80.0
"""Of `triu_tril_kernel`."""
