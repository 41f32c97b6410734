"""Gradients of weights in TF32, whose operands the tensor cores cannot take as they lie.

Both are summed over pixels, but their channels lie together; `wgmma` takes such operands in 16 bits alone. Kernels
(`sm90_xmma_wgrad_indexed_..._tf32f32`) turn them on the way, which takes longer than to multiply.
"""

from math import ceil

from ...gpu import Gpu
from .implicit_product import APART_PARTS, Implicit, Run

TALL, STEP = 128, 32
"""Channels of the result of a tile, and pixels that it takes at a time; along channels of a tap as many, or half of
them where there are no more. Kind: names of kernels."""


def of_turned_weights(product: Implicit, channels: int, gpu: Gpu) -> Run:
    """The gradient of the weights in TF32. Args: channels: of a tap."""
    wide = TALL if channels > TALL // 2 else TALL // 2
    ctas = product.groups * ceil(product.rows / TALL) * ceil(channels / wide) * (product.columns // channels)
    parts = max(gpu.sms // ctas, 1)
    steps = ceil(product.channels / parts / STEP)
    step_s = gpu.cycles_s((TALL + wide) * STEP / gpu.cost("convolution.turned_per_cycle"))
    time_s = max(ctas * parts / gpu.sms, 1.0) * (
        steps * step_s + gpu.cost("convolution.tile_s") + gpu.cost("convolution.element_s") * TALL * wide
    )
    if parts == 1:
        return Run(time_s=time_s)
    if parts < APART_PARTS:
        return Run(time_s=time_s, more_s=gpu.cost("convolution.summed_s"), before="init_device_workspace")
    return Run(time_s=time_s, before="init_device_workspace", summed_s=gpu.cost("convolution.summed_apart_s"))
