"""Constants that kernels share, in a form that Triton takes for compile-time constants."""

import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
"""exp(x) = 2^(x * LOG2_E), one FMA and one EX2."""
LN_2 = tl.constexpr(0.6931471805599453)
"""log(x) = log2(x) * LN_2."""
