"""Operations on images as torch's dispatcher sees them, by the names of `validate/lab/torch_rare_cases.py`."""

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass

from support.lab import DATA
from support.torch_prices import operation, tensor
from tilesight.simulator.operations.operation import Operation

MEASURED = DATA / "torch-rare-images-h200-2026-11-28.ndjson.xz"
TYPES = {"bf16": "bfloat16", "f32": "float32"}
FITTED = ("16x64x112", "16x64x4096")
"""Shapes off which numbers were read; of volumes there are no others."""
UPSAMPLED = {
    "bicubic": "upsample_bicubic2d",
    "bilinear": "upsample_bilinear2d",
    "nearest": "upsample_nearest2d",
    "nearest-exact": "_upsample_nearest_exact2d",
    "linear 1d": "upsample_linear1d",
    "nearest 1d": "upsample_nearest1d",
    "nearest 3d": "upsample_nearest3d",
    "trilinear 3d": "upsample_trilinear3d",
}
PADDED = {
    "reflect pad2d": "reflection_pad2d",
    "replicate pad2d": "replication_pad2d",
    "reflect pad1d": "reflection_pad1d",
}
POOLED = {"max_pool2d 3": "max_pool2d_with_indices", "avg_pool2d 2": "avg_pool2d"}
ADAPTIVE = {"adaptive_avg_pool2d 7": "_adaptive_avg_pool2d", "adaptive_max_pool2d 7": "adaptive_max_pool2d"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A line of the data.

    Args:
        name: of the case; kind: of its operation, with `backward`; fitted: whether numbers were read off its shape.
        operations: as torch dispatches them; kernels: (name, us) by temperature of L2.
    """

    name: str
    kind: str
    fitted: bool
    operations: tuple[Operation, ...]
    kernels: dict[str, list[tuple[str, float]]]


def measured() -> Iterator[Measured]:
    """All lines."""
    for row in map(json.loads, lzma.decompress(MEASURED.read_bytes()).splitlines()):
        kind, dtype, shape = split(row["name"])
        yield Measured(
            name=row["name"],
            kind=kind,
            fitted=shape in FITTED or "3d" in kind,
            operations=made(kind, dtype, shape),
            kernels={key: row[key] for key in ("cold", "warm")},
        )


def split(name: str) -> tuple[str, str, str]:
    """Kind of a case, type and shape of its tensors."""
    words = name.split()
    dtype = next(word for word in words if word in TYPES)
    place = words.index(dtype)
    shape = next((word for word in words[place + 1 :] if "x" in word), "2x64x16x32x32")
    return " ".join(word for word in words if word not in (dtype, shape)), TYPES[dtype], shape


def made(kind: str, dtype: str, shape: str) -> tuple[Operation, ...]:
    """Operations of a case."""
    sizes = tuple(map(int, shape.split("x")))
    if "1d" not in kind and "3d" not in kind:
        sizes = (*sizes, sizes[-1])
    plain = kind.removesuffix(" backward")
    forward = _forward(plain, dtype, sizes)
    return _backward(plain, forward) if plain != kind else (forward,)


def _forward(kind: str, dtype: str, sizes: tuple[int, ...]) -> Operation:
    batch, channels, *sides = sizes
    source = tensor(1, *sizes, dtype=dtype)

    def output(*shape: int) -> Operation:
        more = (tensor(3, *shape, dtype="int64"),) if "max_pool" in kind else ()
        return operation(name, (source,), (tensor(2, *shape, dtype=dtype), *more), **arguments)

    arguments: dict[str, object] = {}
    if kind in UPSAMPLED:
        name = UPSAMPLED[kind]
        return output(batch, channels, *(2 * side for side in sides))
    if kind in ("bilinear half", "antialias"):
        name = "_upsample_bilinear2d_aa" if kind == "antialias" else "upsample_bilinear2d"
        return output(batch, channels, *(side // 2 for side in sides))
    if kind in PADDED:
        name, more = PADDED[kind], 3 if "1d" in kind else 1
        return output(batch, channels, *(side + 2 * more for side in sides))
    if kind in ADAPTIVE:
        name, arguments = ADAPTIVE[kind], {"output_size": (7, 7)}
        return output(batch, channels, 7, 7)
    if kind in POOLED:
        name = POOLED[kind]
        arguments = {"kernel_size": (3, 3), "stride": (2, 2)} if "max" in kind else {"kernel_size": (2, 2)}
        return output(batch, channels, *(side // 2 for side in sides))
    if kind == "max_pool1d":
        name, arguments = "max_pool2d_with_indices", {"kernel_size": (1, 2), "stride": (1, 2)}
        source = tensor(1, batch, channels, 1, *sides, dtype=dtype)
        return output(batch, channels, 1, sides[0] // 2)
    if kind == "unfold 3":
        name, arguments = "im2col", {"kernel_size": (3, 3), "stride": (1, 1)}
        return output(batch, 9 * channels, sides[0] * sides[1])
    name = {"prelu": "_prelu_kernel", "grid_sample": "grid_sampler_2d"}.get(kind, kind)
    more = {
        "prelu": (tensor(4, 1, channels, 1, 1, dtype=dtype),),
        "grid_sample": (tensor(4, batch, *sides, 2, dtype=dtype),),
    }
    shapes = {
        "pixel_shuffle": (batch, channels // 4, 2 * sides[0], 2 * sides[-1]),
        "pixel_unshuffle": (batch, 4 * channels, sides[0] // 2, sides[-1] // 2),
    }
    made = tensor(2, *shapes.get(kind, sizes), dtype=dtype)
    return operation(name, (source, *more.get(kind, ())), (made,), groups=4, k=1)


def _backward(kind: str, forward: Operation) -> tuple[Operation, ...]:
    """The gradient of an operation: what torch hands it of the forward pass, whether its kernels read that or not."""
    source, output = forward.inputs[0], forward.outputs[0]
    gradient, made = tensor(5, *output.shape, dtype=output.dtype), tensor(6, *source.shape, dtype=source.dtype)
    given = dict(forward.arguments)
    name = f"{forward.name}_backward"
    if kind in ("unfold 3", "pixel_shuffle"):
        name = {"unfold 3": "col2im", "pixel_shuffle": "pixel_unshuffle"}[kind]
        return (operation(name, (gradient,), (made,), **given),)
    if kind == "prelu":
        slopes = tensor(7, *source.shape, dtype=source.dtype)
        return (operation(name, (gradient, source, forward.inputs[1]), (made, slopes)),)
    if kind == "grid_sample":
        grid = forward.inputs[1]
        places = tensor(7, *grid.shape, dtype=grid.dtype)
        return (operation(name, (gradient, *forward.inputs), (made, places), **given),)
    kept = () if kind in UPSAMPLED else (source, *forward.outputs[1:])
    return (operation(name, (gradient, *kept), (made,), **given),)
