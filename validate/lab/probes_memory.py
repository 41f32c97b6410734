"""Probes of memory, second set: columns, odd pitches, lone words, bins, groups, odd beginnings.

Written after the first set had been looked into, to judge what was mended: other sizes, types and tiles, none of them
fitted. A probe is as in `probes.py`; `probes_measure.py` predicts and measures. No Tilesight here.
"""

import torch
import triton
import triton.language as tl
from probes_kept import blank, floats, probe, whole


@triton.jit
def k_down(X, Y, PITCH, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    sums = tl.zeros((BLOCK,), tl.float32)
    for row in range(0, ROWS, BLOCK):
        sums += tl.load(X + (row + tl.arange(0, BLOCK)) * PITCH + tl.program_id(0)).to(tl.float32)
    tl.store(Y + tl.program_id(0), tl.sum(sums, 0))


@probe("sums of 2,560 columns of 6,144 bf16, a CTA of 4 warps a column: 16 CTAs share a sector")
def down(device):
    x, y = floats(device, 6144, 2560, dtype=torch.bfloat16), blank(device, 2560)
    return lambda: k_down[(2560,)](x, y, 2560, 6144, 1024)


@triton.jit
def k_band(X, Y, PITCH, TURNED: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.program_id(1) * R + tl.arange(0, R), tl.program_id(0) * C + tl.arange(0, C)
    x = tl.load(X + r[:, None] * PITCH + c[None, :])
    if TURNED:
        tl.store(Y + c[:, None] * PITCH + r[None, :], tl.trans(x))
    else:
        tl.store(Y + r[:, None] * PITCH + c[None, :], x)


@probe("5,120 x 5,120 fp32 copied by tiles, or turned, at pitches of 5,121 and 5,128 words",
       {"pitch": 5121, "turned": 0}, {"pitch": 5121, "turned": 1}, {"pitch": 5128, "turned": 1})  # fmt: skip
def band(device, pitch, turned):
    x, y = floats(device, 5120, pitch), blank(device, 5120, pitch)
    return lambda: k_band[(80, 80)](x, y, pitch, turned, 64, 64)


@triton.jit
def k_pick(X, Y, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + at, tl.load(X + at.to(tl.int64) * STRIDE))


@probe("3 x 2^17 words 3,072 B apart, copied to neighbours")
def pick(device):
    x, y = torch.empty(768 * 3 << 17, device=device), blank(device, 3 << 17)
    return lambda: k_pick[(768,)](x, y, 768, 512)


@triton.jit
def k_bins(Keys, Bins, BLOCK: tl.constexpr):
    keys = tl.load(Keys + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(Bins + keys, 1, sem="relaxed")


@probe("3 x 2^18 keys counted in bins by an atomic each, low bins the more frequent", {"bins": 640}, {"bins": 4096})
def bins(device, bins):
    keys, counts = whole(device, bins, 3 << 18, power=1.5), blank(device, bins, dtype=torch.int32)
    return lambda: k_bins[(768,)](keys, counts, 1024)


@triton.jit
def k_groups(X, Group, Y, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(Y + tl.load(Group + at), tl.load(X + at), sem="relaxed")


@probe("2^19 fp32 added to 10,000 groups by atomics, groups in order")
def groups(device):
    ids = whole("meta", 10000, 1 << 19).sort().values
    ids = ids if device == "meta" else ids.to(device)
    x, y = floats(device, 1 << 19), blank(device, 10000)
    return lambda: k_groups[(256,)](x, ids, y, 2048)


@triton.jit
def k_fill(Y, BLOCKS, BLOCK: tl.constexpr):
    at = (tl.program_id(0) % BLOCKS) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + at, at.to(tl.float32))


@probe("12 MB of fp32 stored to 20 times, by CTAs of 2,048 words, from a line on and from 4 B behind it",
       {"off": 0}, {"off": 1})  # fmt: skip
def fill(device, off):
    y = blank(device, 1536 * 2048 + 32)[off:]
    return lambda: k_fill[(1536 * 20,)](y, 1536, 2048)
