"""Names of torch's operations that one price answers for, without underscores around them."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FILLED = _words(
    """fill zero zeros ones full zeros_like ones_like full_like new_zeros new_ones new_full scalar_tensor"""
)
"""Operations that write one value."""
SIMPLE = FILLED | _words(
    """
    add sub rsub mul div true_divide floor_divide remainder fmod neg abs sign reciprocal square sqrt rsqrt pow
    maximum minimum fmax fmin clamp clamp_min clamp_max where eq ne lt le gt ge heaviside copysign
    logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor
    bitwise_left_shift bitwise_right_shift lshift rshift ilshift irshift and or xor iand ior ixor
    floor ceil round trunc frac isnan isinf isfinite isneginf isposinf nan_to_num
    relu relu6 threshold threshold_backward hardtanh hardtanh_backward leaky_relu leaky_relu_backward
    hardsigmoid hardsigmoid_backward hardswish hardswish_backward native_dropout_backward
    hardshrink hardshrink_backward softshrink softshrink_backward
    mse_loss_backward smooth_l1_loss_backward huber_loss_backward lerp addcmul addcdiv masked_fill copy clone to_copy
    """
)
"""Elementwise operations of a few instructions, and copies."""
MATH = _words(
    """
    exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh sigmoid logit
    silu gelu mish softplus elu selu celu log_sigmoid_forward erf erfc erfinv hypot logaddexp xlogy lgamma digamma sinc
    special_entr special_xlog1py logaddexp2
    """
)
"""Elementwise operations with an exponential or the like."""
SERIES_OF = _words(
    """
    i0 special_i0e special_i1 special_i1e special_ndtri special_erfcx special_log_ndtr special_bessel_j0
    special_bessel_j1 special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0
    special_modified_bessel_k1
    """
)
"""Special functions that are series of many terms."""
MATH_BACKWARD = _words(
    """
    gelu_backward silu_backward sigmoid_backward tanh_backward mish_backward softplus_backward elu_backward
    log_sigmoid_backward logit_backward
    """
)
"""Gradients of these."""
DRAWN = _words(
    """bernoulli normal uniform exponential random cauchy geometric rand randn randint rand_like randn_like"""
)
"""Random numbers."""
REDUCED = _words(
    """
    sum nansum mean amax amin aminmax max min argmax argmin prod var var_mean std std_mean norm linalg_vector_norm
    any all count_nonzero
    """
)
"""Reductions of one kernel."""
