"""Single operations of torch, to be timed alone: what makes their operands on the default device, and what runs them.

B is a tensor of bf16, S of float32. Shapes: what prices were not read off before, around what public models run:
attention with masks and dropout, convolutions in both orders, small and odd products, casts, sums over outer
dimensions, caches that grow.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Make = Callable[[], tuple[Any, ...]]
Case = tuple[Make, Callable[..., Any]]
CASES: dict[str, Case] = {}


def drawn(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(*shape, dtype=dtype)


def single(*shape: int) -> Tensor:
    return drawn(*shape, dtype=torch.float32)


def below(most: int, *shape: int) -> Tensor:
    return torch.randint(0, most, shape)


B, S, I = drawn, single, below  # noqa: E741


def case(name: str, make: Make, run: Callable[..., Any]) -> None:
    """Register an operation: what makes its operands on the default device, and what runs it."""
    CASES[name] = (make, run)


def attention(heads: int, kept: int, queries: int, keys: int, dim: int, batch: int) -> Make:
    """Q, K and V of grouped heads."""
    return lambda: (B(batch, heads, queries, dim), B(batch, kept, keys, dim), B(batch, kept, keys, dim))


def masked(make: Make, dtype: torch.dtype) -> Make:
    """With a mask that all heads share and that hides nothing, of type `dtype`."""

    def made() -> tuple[Any, ...]:
        q, k, v = make()
        mask = torch.zeros(1, 1, q.shape[2], k.shape[2], dtype=dtype)
        return q, k, v, mask == 0 if dtype == torch.bool else mask

    return made


def sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask, dropout, enable_gqa=q.shape[1] != k.shape[1])


def differentiated(make: Make, run: Callable[..., Tensor]) -> tuple[Make, Callable[..., Any]]:
    """The gradients of an operation alone: its forward pass belongs to what makes operands."""

    def made() -> tuple[Any, ...]:
        given = make()
        leaves = [x.requires_grad_() for x in given if x.is_floating_point()]
        with torch.enable_grad():
            result = run(*given)
        return result, leaves, torch.randn_like(result)

    return made, lambda result, leaves, gradient: torch.autograd.grad(result, leaves, gradient, retain_graph=True)


for batch, heads, kept, queries, keys, dim in (
    (2, 16, 16, 4096, 4096, 64),
    (8, 12, 12, 1024, 1024, 64),
    (4, 12, 12, 512, 512, 64),
    (1, 32, 8, 4096, 4096, 128),
    (2, 16, 16, 2048, 2048, 128),
    (8, 8, 8, 1024, 4096, 128),
    (1, 8, 8, 8192, 8192, 128),
):
    shape = f"{batch}x{heads}:{kept}x{queries}x{keys}x{dim}"
    plain = attention(heads, kept, queries, keys, dim, batch)
    case(f"sdpa mask {shape}", masked(plain, torch.bfloat16), sdpa)
    case(f"sdpa dropout {shape}", plain, lambda q, k, v: sdpa(q, k, v, None, 0.1))
    if heads == kept:
        case(f"sdpa mask dropout {shape}", masked(plain, torch.bfloat16), lambda *x: sdpa(*x, 0.1))
        case(
            f"sdpa mask backward {shape}",
            *differentiated(masked(plain, torch.bool), sdpa),
        )
        case(f"sdpa dropout backward {shape}", *differentiated(plain, lambda q, k, v: sdpa(q, k, v, None, 0.1)))
for batch, heads, kept, keys, dim in (
    (64, 12, 12, 2048, 64),
    (32, 32, 8, 2048, 128),
    (16, 16, 16, 4096, 128),
    (4, 32, 8, 8192, 128),
):
    plain = attention(heads, kept, 1, keys, dim, batch)
    shape = f"{batch}x{heads}:{kept}x1x{keys}x{dim}"
    case(f"decode {shape}", plain, sdpa)
    case(f"decode mask {shape}", masked(plain, torch.bfloat16), sdpa)
    case(f"decode dropout {shape}", plain, lambda q, k, v: sdpa(q, k, v, None, 0.1))

CONVOLUTIONS = (
    (32, 64, 256, 56, 1, 1),
    (32, 256, 64, 56, 1, 1),
    (32, 512, 128, 28, 1, 1),
    (32, 256, 1024, 14, 1, 1),
    (32, 64, 64, 56, 3, 1),
    (32, 128, 128, 28, 3, 1),
    (32, 256, 256, 14, 3, 1),
    (32, 512, 512, 7, 3, 1),
    (8, 320, 320, 64, 3, 1),
    (8, 640, 640, 32, 3, 1),
    (4, 1280, 1280, 16, 3, 1),
    (8, 96, 192, 64, 3, 2),
    (8, 128, 128, 256, 3, 1),
    (64, 3, 1024, 224, 16, 16),
    (32, 4, 1152, 32, 2, 2),
)
for batch, source, made, side, window, stride in CONVOLUTIONS:
    shape = f"{batch}x{source}>{made}x{side} k{window} s{stride}"
    pad = window // 2 if stride < window < 16 else 0

    def operands(
        order: torch.memory_format, given: tuple[int, ...] = (batch, source, made, side, window)
    ) -> tuple[Tensor, Tensor]:
        batch, source, made, side, window = given
        x, w = B(batch, source, side, side), B(made, source, window, window)
        return x.to(memory_format=order), w.to(memory_format=order)

    def convolved(x: Tensor, w: Tensor, stride: int = stride, pad: int = pad) -> Tensor:
        return F.conv2d(x, w, stride=stride, padding=pad)

    for name, order in (("nchw", torch.contiguous_format), ("nhwc", torch.channels_last)):
        make = lambda order=order, operands=operands: operands(order)  # noqa: E731
        case(f"conv {name} {shape}", make, convolved)
        if batch * side in (896, 512, 1792, 2048):
            case(f"conv backward {name} {shape}", *differentiated(make, convolved))
for batch, source, made, length, stride in ((16, 80, 768, 3000, 1), (16, 768, 768, 3000, 2), (8, 512, 512, 4096, 1)):
    case(
        f"conv1d {batch}x{source}>{made}x{length} s{stride}",
        lambda b=batch, c=source, m=made, n=length: (B(b, c, n), B(m, c, 3)),
        lambda x, w, s=stride: F.conv1d(x, w, stride=s, padding=1),
    )
for batch, channels, side, window in ((32, 96, 56, 7), (32, 384, 14, 7), (32, 192, 28, 3), (16, 768, 7, 7)):
    for name, order in (("nchw", torch.contiguous_format), ("nhwc", torch.channels_last)):
        case(
            f"depthwise {name} {batch}x{channels}x{side} k{window}",
            lambda b=batch, c=channels, s=side, k=window, o=order: (B(b, c, s, s).to(memory_format=o), B(c, 1, k, k)),
            lambda x, w, k=window: F.conv2d(x, w, padding=k // 2, groups=x.shape[1]),
        )
for batch, channels, length in ((8, 2048, 2048), (1, 5120, 4096)):
    case(
        f"depthwise 1d {batch}x{channels}x{length} k4",
        lambda b=batch, c=channels, n=length: (B(b, c, n), B(c, 1, 4)),
        lambda x, w: F.conv1d(x, w, padding=3, groups=x.shape[1]),
    )

for m, n, k in (
    (64, 256, 256),
    (64, 768, 768),
    (64, 2304, 768),
    (64, 3072, 768),
    (64, 768, 3072),
    (32, 1024, 4096),
    (16, 2048, 2048),
    (128, 1024, 1024),
    (256, 1024, 1024),
    (256, 4096, 1024),
    (512, 512, 512),
    (512, 2048, 512),
    (32, 11008, 4096),
    (8, 4096, 14336),
    (8192, 16, 4096),
    (8192, 4096, 16),
):
    case(f"linear {m}x{n}x{k}", lambda m=m, n=n, k=k: (B(m, k), B(n, k)), F.linear)
    if max(m, n) <= 3072:
        case(f"addmm {m}x{n}x{k}", lambda m=m, n=n, k=k: (B(m, k), B(n, k), B(n)), F.linear)
for m, n, k in (
    (1, 50257, 768),
    (16, 50257, 768),
    (64, 50257, 768),
    (512, 50257, 768),
    (2048, 50257, 1024),
    (4096, 1001, 2048),
    (1024, 1024, 1001),
):
    case(f"linear odd {m}x{n}x{k}", lambda m=m, n=n, k=k: (B(m, k), B(n, k)), F.linear)
for m, n, k in (
    (100000, 256, 256),
    (16384, 8192, 256),
    (2048, 2048, 2048),
    (8192, 1024, 1024),
    (512, 512, 512),
    (64, 1024, 1024),
):
    case(f"mm f32 {m}x{n}x{k}", lambda m=m, n=n, k=k: (S(m, k), S(n, k)), F.linear)
for z, m, n, k in (
    (16384, 27, 27, 128),
    (4096, 16, 16, 64),
    (512, 197, 197, 64),
    (512, 197, 64, 197),
    (96, 1024, 1024, 64),
    (96, 1024, 64, 1024),
    (256, 128, 128, 128),
):
    case(f"bmm {z}x{m}x{n}x{k}", lambda z=z, m=m, n=n, k=k: (B(z, m, k), B(z, k, n)), torch.bmm)

for m, n in ((8192, 8192), (65536, 1024), (2048, 2048)):
    shape = f"{m}x{n}"
    case(f"mul bf16 f32 column {shape}", lambda m=m, n=n: (B(m, n), S(m, 1)), torch.mul)
    case(f"mul bf16 f32 {shape}", lambda m=m, n=n: (B(m, n), S(m, n)), torch.mul)
    case(f"mul bf16 int64 {shape}", lambda m=m, n=n: (B(m, 1), I(9, m, n)), torch.mul)
    case(f"add int64 bf16 row {shape}", lambda m=m, n=n: (I(9, m, n), B(n)), torch.add)
    case(
        f"add bias permuted {shape}",
        lambda m=m, n=n: (B(2, m // 16, n, 16), B(m // 16, n, 16)),
        lambda x, y: x.permute(0, 3, 1, 2).contiguous() + y.permute(2, 0, 1),
    )
    case(f"mean 0 f32 {shape}", lambda m=m, n=n: (S(m, n),), lambda x: x.mean(0))
    case(f"sum 0 bf16 {shape}", lambda m=m, n=n: (B(m, n),), lambda x: x.sum(0))
    case(f"std 0 f32 {shape}", lambda m=m, n=n: (S(m, n),), lambda x: x.std(0))
    case(f"std -1 f32 {shape}", lambda m=m, n=n: (S(m, n),), lambda x: x.std(-1))
    case(f"var_mean -1 bf16 {shape}", lambda m=m, n=n: (B(m, n),), lambda x: torch.var_mean(x, -1))
    case(f"norm -1 bf16 {shape}", lambda m=m, n=n: (B(m, n),), lambda x: x.norm(dim=-1))
    case(f"amax 0 bf16 {shape}", lambda m=m, n=n: (B(m, n),), lambda x: x.amax(0))
    case(f"argmax -1 f32 {shape}", lambda m=m, n=n: (S(m, n),), lambda x: x.argmax(-1))
    case(f"log_softmax transposed f32 {shape}", lambda m=m, n=n: (S(m, n),), lambda x: x.t().log_softmax(-1))
    case(f"softmax 0 bf16 {shape}", lambda m=m, n=n: (B(m, n),), lambda x: x.softmax(0))

for batch, heads, keys, dim in ((32, 8, 2048, 128), (64, 12, 2048, 64), (8, 8, 512, 128)):
    shape = f"{batch}x{heads}x{keys}x{dim}"
    case(
        f"cat cache {shape}",
        lambda b=batch, h=heads, n=keys, d=dim: (B(b, h, n, d), B(b, h, 1, d)),
        lambda x, y: torch.cat((x, y), 2),
    )
    case(
        f"cat cache sliced {shape}",
        lambda b=batch, h=heads, n=keys, d=dim: (B(b, h, n + 1, d), B(b, h, 1, d)),
        lambda x, y: torch.cat((x[:, :, :-1], y), 2),
    )
    case(
        f"cat cache token {shape}",
        lambda b=batch, h=heads, n=keys, d=dim: (B(b, h, n, d), B(b, 1, h, d)),
        lambda x, y: torch.cat((x, y.transpose(1, 2)), 2),
    )
    case(
        f"copy into cache {shape}",
        lambda b=batch, h=heads, n=keys, d=dim: (B(b, h, n, d), B(b, h, 1, d), I(n, 1)),
        lambda x, y, i: x.index_copy_(2, i, y),
    )
for rows, columns in ((64, 32000), (8, 50257), (4096, 64), (1024, 1024), (16, 151936)):
    case(f"sort {rows}x{columns}", lambda m=rows, n=columns: (S(m, n),), lambda x: x.sort(dim=-1, descending=True))
    case(f"topk 50 {rows}x{columns}", lambda m=rows, n=columns: (S(m, n),), lambda x: x.topk(50, -1))
    case(f"cumsum {rows}x{columns}", lambda m=rows, n=columns: (S(m, n),), lambda x: x.cumsum(-1))
    case(f"multinomial {rows}x{columns}", lambda m=rows, n=columns: (S(m, n).abs(),), lambda x: torch.multinomial(x, 1))
case(
    "index_add 1000000 of 100000x256",
    lambda: (S(100000, 256), I(100000, 1000000), S(1000000, 256)),
    lambda x, i, y: x.index_add_(0, i, y),
)
case("histc 32768 of 64", lambda: (I(64, 32768).float(),), lambda x: torch.histc(x, 64, 0, 63))
case("bincount 32768 of 64", lambda: (I(64, 32768),), lambda x: torch.bincount(x, minlength=64))
case("argsort 32768", lambda: (I(64, 32768),), torch.argsort)
for experts, rows, n, k in ((64, 32768, 2048, 2048), (64, 256, 2048, 2048), (8, 8192, 4096, 14336)):
    case(
        f"grouped_mm {experts}:{rows}x{n}x{k}",
        lambda e=experts, m=rows, n=n, k=k: (B(m, k), B(e, k, n), torch.arange(1, e + 1, dtype=torch.int32) * (m // e)),
        lambda x, w, o: torch._grouped_mm(x, w, offs=o),
    )
for kind in ("encoder", "mha"):

    def encoder(kind: str = kind) -> tuple[Any, ...]:
        layer = torch.nn.TransformerEncoderLayer(
            768, 12, 3072, activation="gelu", batch_first=True, dtype=torch.bfloat16
        ).eval()
        return (layer if kind == "encoder" else layer.self_attn, B(16, 512, 768))

    case(
        f"nn {kind} 16x512x768",
        encoder,
        lambda layer, x, kind=kind: layer(x) if kind == "encoder" else layer(x, x, x, need_weights=False),
    )
