"""Images read at places of a grid, as a GPU with cuDNN takes them: its own kernel where corners are aligned.

torch asks cuDNN about the GPU before it chooses, which ends in an error where there is none.
Source: `grid_sampler` and `cond_cudnn_grid_sampler` in ATen/native/GridSampler.cpp, torch 2.11 to 2.13.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

from ..hooks import replace
from .shapes import shaped

ATEN = torch.ops.aten
TYPES = (torch.float16, torch.float32, torch.float64)
MOST_CHANNELS = 1024
BILINEAR = ZEROS = 0
"""torch's numbers of an interpolation, and of what lies outside."""


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

    with shaped({"cudnn_grid_sampler": output, "cudnn_grid_sampler_backward": gradients}), ExitStack() as stack:
        original: Callable[..., Tensor] = replace(stack, "torch:grid_sampler", sampler)
        yield


def is_cudnns(source: Tensor) -> bool:
    """Whether cuDNN may sample images."""
    usable = torch.backends.cudnn.enabled and source.dtype in TYPES
    return usable and source.dim() == len("NCHW") and source.shape[1] <= MOST_CHANNELS


def output(source: Tensor, grid: Tensor) -> Tensor:
    """Shape of `cudnn_grid_sampler`'s result: [images, channels, height, width] of the grid."""
    return source.new_empty((*source.shape[:2], *grid.shape[1:3]))


def gradients(source: Tensor, grid: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
    """Shapes of `cudnn_grid_sampler_backward`: of the images, and of the grid."""
    return torch.empty_like(source), torch.empty_like(grid)
