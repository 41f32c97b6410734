"""Operations of torch beside products, elementwise chains and norms, to be timed alone (`torch_operations`).

Prices are read off the first shape of an operation and tested with the others: validate/lab/README.md says which.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_operation_cases import B, Case, I, Make, S, differentiated

RARE: dict[str, Case] = {}
TYPES = {"bf16": B, "f32": S}


def rare(name: str, make: Make, run: Callable[..., object]) -> None:
    """Register an operation: what makes its operands on the default device, and what runs it."""
    RARE[name] = (make, run)


def with_gradient(name: str, make: Make, run: Callable[..., Tensor]) -> None:
    """Register an operation and its gradient."""
    rare(name, make, run)
    rare(f"{name} backward", *differentiated(make, run))


IMAGES = ((16, 64, 112), (8, 256, 32), (2, 3, 512))
for kind, made in TYPES.items():
    for batch, channels, side in IMAGES:
        shape = f"{kind} {batch}x{channels}x{side}"
        image: Make = lambda m=made, b=batch, c=channels, s=side: (m(b, c, s, s),)  # noqa: E731
        for mode in ("reflect", "replicate"):
            with_gradient(f"{mode} pad2d {shape}", image, lambda x, m=mode: F.pad(x, (1, 1, 1, 1), mode=m))
        for mode in ("bicubic", "bilinear", "nearest", "nearest-exact"):
            with_gradient(f"{mode} {shape}", image, lambda x, m=mode: F.interpolate(x, scale_factor=2, mode=m))
        rare(f"bilinear half {shape}", image, lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"))
        rare(
            f"antialias {shape}",
            image,
            lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True),
        )
        with_gradient(f"adaptive_avg_pool2d 7 {shape}", image, lambda x: F.adaptive_avg_pool2d(x, 7))
        with_gradient(f"adaptive_max_pool2d 7 {shape}", image, lambda x: F.adaptive_max_pool2d(x, 7))
        with_gradient(f"max_pool2d 3 {shape}", image, lambda x: F.max_pool2d(x, 3, 2, 1))
        with_gradient(f"avg_pool2d 2 {shape}", image, lambda x: F.avg_pool2d(x, 2))
        with_gradient(f"unfold 3 {shape}", image, lambda x: F.unfold(x, 3, padding=1))
        with_gradient(
            f"grid_sample {shape}",
            lambda m=made, b=batch, c=channels, s=side: (m(b, c, s, s), m(b, s, s, 2).tanh()),
            lambda x, g: F.grid_sample(x, g, align_corners=False),
        )
        with_gradient(f"prelu {shape}", lambda m=made, i=image, c=channels: (*i(), m(c)), F.prelu)
        if channels > 3:
            with_gradient(f"pixel_shuffle {shape}", image, lambda x: F.pixel_shuffle(x, 2))
            rare(f"channel_shuffle {shape}", image, lambda x: F.channel_shuffle(x, 4))
        rare(f"pixel_unshuffle {shape}", image, lambda x: F.pixel_unshuffle(x, 2))
        rare(f"rot90 {shape}", image, lambda x: x.rot90(1, (2, 3)))
        rare(f"local_response_norm {shape}", image, lambda x: F.local_response_norm(x, 5))
    for batch, channels, length in ((16, 64, 4096), (8, 512, 512)):
        signal: Make = lambda m=made, b=batch, c=channels, s=length: (m(b, c, s),)  # noqa: E731
        shape = f"{kind} {batch}x{channels}x{length}"
        for mode in ("linear", "nearest"):
            with_gradient(f"{mode} 1d {shape}", signal, lambda x, m=mode: F.interpolate(x, scale_factor=2, mode=m))
        with_gradient(f"reflect pad1d {shape}", signal, lambda x: F.pad(x, (3, 3), mode="reflect"))
        rare(f"max_pool1d {shape}", signal, lambda x: F.max_pool1d(x, 2))
        rare(f"cummax {shape}", signal, lambda x: x.cummax(-1))
        rare(f"logcumsumexp {shape}", signal, lambda x: x.logcumsumexp(-1))
    for mode in ("nearest", "trilinear"):
        volume: Make = lambda m=made: (m(2, 64, 16, 32, 32),)  # noqa: E731
        with_gradient(f"{mode} 3d {kind}", volume, lambda x, m=mode: F.interpolate(x, scale_factor=2, mode=m))
    for rows, hidden, steps, layers in ((32, 512, 128, 1), (64, 256, 50, 2), (8, 1024, 200, 1), (128, 128, 32, 1)):
        for layer in (nn.LSTM, nn.GRU):

            def recurrent(
                layer: type[nn.Module] = layer,
                make: Callable[..., Tensor] = made,
                rows: int = rows,
                hidden: int = hidden,
                steps: int = steps,
                layers: int = layers,
            ) -> tuple[nn.Module, Tensor]:
                x = make(rows, steps, hidden)
                return layer(hidden, hidden, layers, batch_first=True, dtype=x.dtype), x

            rare(f"{layer.__name__} {kind} {rows}x{steps}x{hidden} l{layers}", recurrent, lambda layer, x: layer(x)[0])

for rows, columns, picked in ((10000, 64, 200000), (4096, 256, 40960), (100000, 16, 1000000)):
    shape = f"{picked} of {rows}x{columns}"
    for how in ("sum", "amax", "mean"):
        rare(
            f"scatter_reduce {how} {shape}",
            lambda r=rows, c=columns, p=picked: (S(r, c), I(r, p, 1).expand(p, c), S(p, c)),
            lambda x, i, y, h=how: x.scatter_reduce(0, i, y, h),
        )
    rare(
        f"index_reduce {shape}",
        lambda r=rows, c=columns, p=picked: (S(r, c), I(r, p), S(p, c)),
        lambda x, i, y: x.index_reduce(0, i, y, "amax"),
    )
    rare(
        f"segment_reduce {shape}",
        lambda r=rows, c=columns, p=picked: (S(p, c), torch.full((r,), p // r)),
        lambda x, n: torch.segment_reduce(x, "sum", lengths=n, unsafe=True),
    )
for bags, held, width, rows in ((8192, 16, 64, 100000), (2048, 32, 128, 1000000), (65536, 4, 32, 10000)):
    for mode in ("sum", "mean"):
        with_gradient(
            f"embedding_bag {mode} {bags}x{held}x{width}",
            lambda b=bags, h=held, w=width, r=rows: (I(r, b, h), S(r, w)),
            lambda i, w, m=mode: F.embedding_bag(i, w, mode=m),
        )
for batch, classes, side in ((16, 21, 256), (4, 150, 128), (8, 2, 512)):
    with_gradient(
        f"cross_entropy2d {batch}x{classes}x{side}",
        lambda b=batch, c=classes, s=side: (S(b, c, s, s), I(c, b, s, s)),
        F.cross_entropy,
    )
for rows, row in ((64, 16384), (1024, 400), (4096, 1024), (16, 1 << 20), (2048, 1023)):
    shape = f"{rows}x{row}"
    rare(f"rfft {shape}", lambda r=rows, n=row: (S(r, n),), torch.fft.rfft)
    rare(
        f"irfft {shape}",
        lambda r=rows, n=row: (torch.view_as_complex(S(r, n // 2 + 1, 2)),),
        lambda x, n=row: torch.fft.irfft(x, n),
    )
    rare(f"fft {shape}", lambda r=rows, n=row: (torch.view_as_complex(S(r, n, 2)),), torch.fft.fft)
    rare(f"polar {shape}", lambda r=rows, n=row: (S(r, n), S(r, n)), torch.polar)
    rare(f"angle {shape}", lambda r=rows, n=row: (torch.view_as_complex(S(r, n, 2)),), torch.angle)
for batch, side in ((16, 256), (64, 64), (128, 32), (2, 1024)):
    rare(f"fft2 {batch}x{side}", lambda b=batch, s=side: (torch.view_as_complex(S(b, s, s, 2)),), torch.fft.fft2)
    rare(f"rfft2 {batch}x{side}", lambda b=batch, s=side: (S(b, s, s),), torch.fft.rfft2)
for batch, m, n, width in ((4, 1024, 1024, 64), (1, 8192, 512, 128), (64, 100, 200, 4)):
    points: Make = lambda b=batch, m=m, n=n, w=width: (S(b, m, w), S(b, n, w))  # noqa: E731
    for norm in (1.0, 2.0):
        rare(f"cdist {norm:g} {batch}x{m}x{n}x{width}", points, lambda x, y, p=norm: torch.cdist(x, y, p=p))
for rows, columns in ((64, 32000), (2048, 1024), (8, 151936)):
    shape, logits = f"{rows}x{columns}", lambda r=rows, c=columns: (S(r, c),)
    rare(f"multinomial {shape}", lambda r=rows, c=columns: (S(r, c).abs(),), lambda x: torch.multinomial(x, 1))
    rare(f"multinomial 4 {shape}", lambda r=rows, c=columns: (S(r, c).abs(),), lambda x: torch.multinomial(x, 4))
    rare(f"kthvalue {shape}", logits, lambda x: x.kthvalue(10))
    rare(f"median {shape}", logits, lambda x: x.median(-1))
    rare(f"bucketize 64 {shape}", lambda r=rows, c=columns: (S(r, c), S(64)), torch.bucketize)
    rare(f"bucketize 4096 {shape}", lambda r=rows, c=columns: (S(r, c), S(4096)), torch.bucketize)
    rare(f"searchsorted {shape}", lambda r=rows, c=columns: (S(r, 128), S(r, c)), torch.searchsorted)
    rare(f"renorm {shape}", logits, lambda x: x.renorm(2, 0, 1.0))
    rare(f"hardshrink {shape}", logits, lambda x: F.softshrink(F.hardshrink(x)))
    rare(f"rrelu {shape}", logits, lambda x: F.rrelu(x, training=True))
    rare(f"i0 {shape}", logits, torch.special.i0)
    rare(f"index_fill {shape}", lambda r=rows, c=columns: (S(r, c), I(r, r // 4)), lambda x, i: x.index_fill(0, i, 0.0))
    rare(
        f"masked_scatter {shape}",
        lambda r=rows, c=columns: (S(r, c), I(2, r, c).bool(), S(r, c)),
        lambda x, m, y: x.masked_scatter(m, y),
    )
    rare(f"isin {shape}", lambda r=rows, c=columns: (I(c, r, c), I(c, 100)), torch.isin)
    with_gradient(
        f"binary_cross_entropy {shape}",
        lambda r=rows, c=columns: (S(r, c).sigmoid(), S(r, c).sigmoid()),
        F.binary_cross_entropy,
    )
for batch, side in ((256, 32), (64, 128), (1, 1024)):
    square: Make = lambda b=batch, s=side: (S(b, s, s) + 2 * s * torch.eye(s),)  # noqa: E731
    for what in ("inv_ex", "cholesky_ex", "eigvalsh", "slogdet"):
        rare(f"{what} {batch}x{side}", lambda m=square: (m()[0] + m()[0].mT,), getattr(torch.linalg, what))
    rare(f"qr {batch}x{side}", square, torch.linalg.qr)
    rare(f"solve_ex {batch}x{side}", square, lambda x: torch.linalg.solve_ex(x, x[..., :1]))
    rare(f"solve_triangular {batch}x{side}", square, lambda x: torch.linalg.solve_triangular(x, x, upper=True))
    rare(f"matrix_exp {batch}x{side}", lambda m=square: (m()[0] / 4096,), torch.matrix_exp)
rare("cross 100000", lambda: (S(100000, 3), S(100000, 3)), torch.linalg.cross)
rare("weight_norm 512x256x3", lambda: (B(512, 256, 3), B(512, 1, 1)), lambda v, g: torch._weight_norm(v, g, 0))
rare("weight_norm f32 64x512x7", lambda: (S(64, 512, 7), S(64, 1, 1)), lambda v, g: torch._weight_norm(v, g, 0))
for source, made, side, window in (
    (64, 1, 256, 3),
    (32, 1, 512, 3),
    (128, 1, 128, 1),
    (64, 3, 256, 3),
    (512, 2, 64, 3),
):
    for kind, values in TYPES.items():
        for order in ("nchw", "nhwc"):
            rare(
                f"conv {kind} {order} 4x{source}>{made}x{side} k{window}",
                lambda v=values, c=source, m=made, s=side, k=window, o=order: tuple(
                    x.contiguous(memory_format=torch.channels_last if o == "nhwc" else torch.contiguous_format)
                    for x in (v(4, c, s, s), v(m, c, k, k))
                ),
                lambda x, w: F.conv2d(x, w, padding=w.shape[-1] // 2),
            )
for source, made, side, window, stride in (
    (256, 128, 32, 4, 2),
    (512, 256, 16, 4, 2),
    (64, 32, 128, 2, 2),
    (128, 64, 64, 3, 2),
):
    for kind, values in TYPES.items():
        with_gradient(
            f"conv_transpose {kind} 8x{source}>{made}x{side} k{window}",
            lambda v=values, c=source, m=made, s=side, k=window: (v(8, c, s, s), v(c, m, k, k)),
            lambda x, w, s=stride: F.conv_transpose2d(x, w, stride=s),
        )
for source, made, length, window, stride in ((512, 256, 256, 16, 8), (256, 128, 2048, 16, 8), (64, 32, 32768, 4, 2)):
    rare(
        f"conv_transpose1d f32 8x{source}>{made}x{length} k{window}",
        lambda c=source, m=made, s=length, k=window: (S(8, c, s), S(c, m, k)),
        lambda x, w, s=stride: F.conv_transpose1d(x, w, stride=s),
    )
for batch, source, made, depth, side in ((2, 64, 64, 16, 64), (1, 128, 128, 8, 32), (4, 32, 64, 16, 32)):
    for kind, values in TYPES.items():
        rare(
            f"conv3d {kind} {batch}x{source}>{made}x{depth}x{side}",
            lambda v=values, b=batch, c=source, m=made, d=depth, s=side: (v(b, c, d, s, s), v(m, c, 3, 3, 3)),
            lambda x, w: F.conv3d(x, w, padding=1),
        )
for channels, groups, side in ((256, 32, 56), (128, 2, 28), (512, 32, 14), (96, 3, 64)):
    for kind, values in TYPES.items():
        rare(
            f"conv groups {kind} 16x{channels}x{side} g{groups}",
            lambda v=values, c=channels, g=groups, s=side: (v(16, c, s, s), v(c, c // g, 3, 3)),
            lambda x, w, g=groups: F.conv2d(x, w, padding=1, groups=g),
        )
