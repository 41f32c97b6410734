"""Gradients of weights in TF32, whose operands the tensor cores cannot take as they lie.

Both are summed over pixels, but their channels lie together; `wgmma` takes such operands in 16 bits alone. Kernels
(`sm90_xmma_wgrad_indexed_..._tf32f32`) turn them on the way, which takes longer than to multiply.
"""

from math import ceil

from ...gpu import Gpu
from .implicit_product import APART_PARTS, ELEMENT_S, START_S, SUMMED_APART_S, SUMMED_S, TILE_S, Implicit, Run

TALL, STEP = 128, 32
"""Channels of the result of a tile, and pixels that it takes at a time; along channels of a tap as many, or half of
them where there are no more. Kind: names of kernels."""
TURNED_PER_CYCLE = 6.4
"""Elements of operands that an SM turns in a cycle. Kind: fitted, 128 x 2304 channels of 100,352 pixels on one H100 and
320 x 2880 of 4,096 on one H200; four others it meets by 10 %."""


def of_turned_weights(product: Implicit, channels: int, gpu: Gpu) -> Run:
    """The gradient of the weights in TF32. Args: channels: of a tap."""
    wide = TALL if channels > TALL // 2 else TALL // 2
    ctas = product.groups * ceil(product.rows / TALL) * ceil(channels / wide) * (product.columns // channels)
    parts = max(gpu.sms // ctas, 1)
    steps = ceil(product.channels / parts / STEP)
    step_s = gpu.cycles_s((TALL + wide) * STEP / TURNED_PER_CYCLE)
    time_s = max(ctas * parts / gpu.sms, 1.0) * (steps * step_s + TILE_S + ELEMENT_S * TALL * wide)
    if parts == 1:
        return Run(time_s=time_s)
    if parts < APART_PARTS:
        return Run(time_s=time_s, start_s=START_S + SUMMED_S, before="init_device_workspace")
    return Run(time_s=time_s, before="init_device_workspace", summed_s=SUMMED_APART_S)
