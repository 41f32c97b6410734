"""Operations that a GPU takes whole by cuDNN, where a build for CPUs takes them apart: recurrent layers, sampled grids.

Recurrent layers: `_cudnn_impl` and `use_cudnn` in ATen/native/cudnn/RNN.cpp and RNN.cpp beside it, torch 2.11 to 2.13:
dense tensors with a layer's own weights; packed sequences stay apart.
Grids: `grid_sampler` and `cond_cudnn_grid_sampler` in ATen/native/GridSampler.cpp, torch 2.11 to 2.13: cuDNN's kernel
where corners are aligned. torch asks cuDNN about the GPU first, which ends in an error where there is none.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from ..hooks import replace

MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
"""torch's function -> cuDNN's number of it (`cudnnRNNMode_t`)."""
TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
ATEN = torch.ops.aten
GRID_TYPES = (torch.float16, torch.float32, torch.float64)
MOST_CHANNELS = 1024
BILINEAR = ZEROS = 0
"""torch's numbers of an interpolation, and of what lies outside."""


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


@contextmanager
def shaped(shapes: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Have torch know what operations give without running them: a build for GPUs would run them on one.

    Args:
        shapes: torch's name -> what makes results of the right shapes. Operations that have such a function keep it.
    """
    library = torch.library.Library("aten", "IMPL")
    for name, results in shapes.items():
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
            library.impl(name, results, "Meta")
    try:
        yield
    finally:
        library._destroy()


@contextmanager
def sampled_grids() -> Iterator[None]:
    """Have `torch.grid_sampler` on the device choose as if there was a GPU, and cuDNN's operations have shapes."""

    def sampler(source: Tensor, grid: Tensor, mode: int, padding: int, aligned: bool) -> Tensor:
        if source.device.type != "cuda":
            return original(source, grid, mode, padding, aligned)
        if mode == BILINEAR and padding == ZEROS and aligned and is_cudnns(source):
            return ATEN.cudnn_grid_sampler(source, grid)
        native = ATEN.grid_sampler_2d if source.dim() == len("NCHW") else ATEN.grid_sampler_3d
        return native(source, grid, mode, padding, aligned)

    with (
        shaped({"cudnn_grid_sampler": grid_output, "cudnn_grid_sampler_backward": grid_gradients}),
        ExitStack() as stack,
    ):
        original: Callable[..., Tensor] = replace(stack, "torch:grid_sampler", sampler)
        yield


def is_cudnns(source: Tensor) -> bool:
    """Whether cuDNN may sample images."""
    usable = torch.backends.cudnn.enabled and source.dtype in GRID_TYPES
    return usable and source.dim() == len("NCHW") and source.shape[1] <= MOST_CHANNELS


def grid_output(source: Tensor, grid: Tensor) -> Tensor:
    """Shape of `cudnn_grid_sampler`'s result: [images, channels, height, width] of the grid."""
    return source.new_empty((*source.shape[:2], *grid.shape[1:3]))


def grid_gradients(source: Tensor, grid: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
    """Shapes of `cudnn_grid_sampler_backward`: of the images, and of the grid."""
    return torch.empty_like(source), torch.empty_like(grid)
