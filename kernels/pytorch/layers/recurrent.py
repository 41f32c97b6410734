"""Layers of recurrent networks as a GPU takes them: whole, by cuDNN. A build for CPUs takes them apart, step by step.

Source: `_cudnn_impl` and `use_cudnn` in ATen/native/cudnn/RNN.cpp and RNN.cpp beside it, torch 2.11 to 2.13: dense
tensors with a layer's own weights; packed sequences stay apart.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from ..hooks import replace
from .shapes import shaped

MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
"""torch's function -> cuDNN's number of it (`cudnnRNNMode_t`)."""
TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@contextmanager
def whole_layers() -> Iterator[None]:
    """Have layers of recurrent networks on the device be one operation, `_cudnn_rnn`, and its gradient another."""
    with shaped({"_cudnn_rnn_backward": gradients}), ExitStack() as stack:
        for name, mode in MODES.items():
            hook(stack, name, mode)
        yield


def hook(stack: ExitStack, name: str, mode: int) -> None:
    """Replace one function of torch's until a stack is left."""
    original: Callable[..., Any]

    def layer(*given: Any) -> Any:
        source, hidden, weights = given[:3]
        packed = not isinstance(given[3], bool)
        if packed or source.device.type != "cuda" or source.dtype not in TYPES or not torch.backends.cudnn.enabled:
            return original(*given)
        has_biases, layers, dropout, train, both_ways, batch_first = given[3:]
        states = tuple(hidden) if mode == MODES["lstm"] else (hidden, None)
        projected = states[0].shape[2] if mode == MODES["lstm"] and states[0].shape[2] != states[1].shape[2] else 0
        size = (states[1] if mode == MODES["lstm"] else states[0]).shape[2]
        output, last, cells, *_ = torch._cudnn_rnn(
            *(source, weights, 4 if has_biases else 2, weights[0].detach(), states[0].contiguous()),
            *(None if states[1] is None else states[1].contiguous(), mode, size, projected, layers, batch_first),
            *(dropout, train, both_ways, [], None),
        )
        return (output, last, cells) if mode == MODES["lstm"] else (output, last)

    original = replace(stack, f"torch._VF:{name}", layer)


def gradients(source: Tensor, weights: Any, stride: int, buffer: Any, state: Any, cells: Any, *_: Any) -> Any:
    """Shapes of `_cudnn_rnn_backward`: of the input, both states, all weights."""
    made = tuple(None if given is None else torch.empty_like(given) for given in (source, state, cells))
    return (*made, [torch.empty_like(weight) for weight in weights])
