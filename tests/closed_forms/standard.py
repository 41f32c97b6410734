"""Standard attention in training: options go in, the kernels of its forward and backward pass come out.

Each operation is a kernel that reads its inputs and writes its output once, and every intermediate has M x N numbers a
head. Beside the two algorithms of the paper, which have neither mask nor dropout, stands what an eager framework adds.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from closed_forms.passes import DROPOUT_MASK, Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Eager:
    """Kernels of elementwise operations that stand between the products.

    Args:
        scale: scores are divided by sqrt(D) in a kernel of its own, and so are their gradients.
        mask: `added` to the scores, whose gradient is then that of the sum, or `filled` in, and then into gradients
            too; `none`. It is a padding mask of B N numbers, which count nothing.
        dropout: P is dropped into another matrix, and what was kept is remembered in a byte a score.
        product: the backward pass of softmax writes P * dP before it reduces it, as PyTorch does: two kernels in one
            operation, to whose end it holds dP.

    Source: FlashAttention (2022), section 2.2, on mask and dropout; PyTorch, aten/src/ATen/native/cuda/SoftMax.cu, on
    the product; derivatives.yaml there, on gradients of added and filled masks.
    """

    scale: bool = False
    mask: Literal["none", "added", "filled"] = "none"
    dropout: bool = False
    product: bool = False

    def __post_init__(self) -> None:
        if self.mask not in ("none", "added", "filled"):
            raise ValueError(f"mask = {self.mask!r}: must be none, added or filled")


ALGORITHM = Eager()
"""The paper's Algorithms 0 and 3 as they stand."""


def standard_forward(eager: Eager = ALGORITHM) -> tuple[Kernel, ...]:
    """Kernels of the forward pass, in order.

    Source: FlashAttention (2022), Algorithm 0.
    """
    kernels = [Kernel(name="scores", reads={"Q": 1, "K": 1}, writes={"S": 1}, products=1)]
    scores = "S"
    for wanted, name, result in ((eager.scale, "scale", "S_scaled"), (eager.mask != "none", "mask", "S_masked")):
        if wanted:
            kernels.append(Kernel(name=name, reads={scores: 1}, writes={result: 1}))
            scores = result
    kernels.append(Kernel(name="softmax", reads={scores: 1}, writes={"P": 1}))
    if eager.dropout:
        kernels.append(Kernel(name="dropout", reads={"P": 1}, writes={"P_dropped": 1, DROPOUT_MASK: 1}))
    kernels.append(Kernel(name="output", reads={_weights(eager): 1, "V": 1}, writes={"O": 1}, products=1))
    return tuple(kernels)


def standard_backward(eager: Eager = ALGORITHM) -> tuple[Kernel, ...]:
    """Kernels of the backward pass, in order; P was kept by the forward pass.

    Source: FlashAttention (2022), Algorithm 3.
    """
    weights = _weights(eager)
    kernels = [
        Kernel(name="dV", reads={weights: 1, "dO": 1}, writes={"dV": 1}, products=1),
        Kernel(name="dP", reads={"dO": 1, "V": 1}, writes={f"d{weights}": 1}, products=1),
    ]
    if eager.dropout:
        kernels.append(Kernel(name="dropout", reads={f"d{weights}": 1, DROPOUT_MASK: 1}, writes={"dP": 1}))
    names = ["dS_masked" for _ in range(eager.mask == "filled")] + ["dS_scaled" for _ in range(eager.scale)] + ["dS"]
    if eager.product:
        softmax = Kernel(name="softmax", reads={"P": 2, "dP": 1, "P_dP": 1}, writes={"P_dP": 1, names[0]: 1})
    else:
        softmax = Kernel(name="softmax", reads={"P": 1, "dP": 1}, writes={names[0]: 1})
    kernels.append(softmax)
    for before, after in pairwise(names):
        kernels.append(Kernel(name=before.removeprefix("dS_"), reads={before: 1}, writes={after: 1}))
    return (
        *kernels,
        Kernel(name="dQ", reads={"dS": 1, "K": 1}, writes={"dQ": 1}, products=1),
        Kernel(name="dK", reads={"dS": 1, "Q": 1}, writes={"dK": 1}, products=1),
    )


def _weights(eager: Eager) -> str:
    """What multiplies V."""
    return "P_dropped" if eager.dropout else "P"
