"""Steps of two GPUs of one host, to be recorded without any, and measured on two by `two_gpus_run.py`.

    tilesight profile validate/lab/two_gpus.py:ddp --gpus 2

A pair is `KERNEL` so often beside `COLLECTIVE` of so many MiB (of all ranks' data, as NCCL's tests count them), on
another stream. The collective is enqueued first, in `late` pairs last.
"""

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

MIB = 1 << 20
WIDTH, HIDDEN, LAYERS, BATCH, TOKENS = 3072, 8192, 4, 4, 4096
SECOND: "Sizes" = (4096, 14336, 2, 8, 1024)
"""Sizes of the steps `..._2`, in that order."""
PAIRS: dict[str, tuple[str, int, str, int, bool]] = {
    f"{kernel}_{times}_{collective}_{mib}{'_late' * late}": (kernel, times, collective, mib, late)
    for kernel, times, collective, mib, late in (
        ("product_4k", 4, "all_reduce", 64, False),
        ("product_4k", 2, "all_gather", 256, False),
        ("product_8k", 1, "reduce_scatter", 256, False),
        ("product_8k", 1, "all_reduce", 64, False),
        ("product_wide", 2, "all_reduce", 256, False),
        ("product_wide", 1, "all_gather", 64, False),
        ("product_thin", 8, "all_reduce", 64, False),
        ("add", 2, "all_reduce", 64, False),
        ("add", 4, "all_gather", 256, False),
        ("add", 1, "reduce_scatter", 16, False),
        ("norm", 6, "all_reduce", 256, False),
        ("norm", 2, "reduce_scatter", 64, False),
        ("product_4k", 1, "all_reduce", 4, False),
        ("add", 1, "all_gather", 4, False),
        ("product_4k", 4, "all_reduce", 64, True),
        ("product_8k", 1, "all_reduce", 64, True),
        ("add", 4, "all_gather", 256, True),
        ("product_tall", 3, "all_reduce", 128, False),
        ("product_tall", 2, "reduce_scatter", 32, False),
        ("product_6k", 4, "all_gather", 512, False),
        ("product_thin", 12, "all_gather", 128, False),
        ("attention", 3, "all_reduce", 64, False),
        ("attention", 2, "all_gather", 256, False),
        ("softmax", 4, "all_reduce", 128, False),
        ("softmax", 2, "reduce_scatter", 256, False),
        ("transpose", 3, "all_reduce", 32, False),
        ("gelu", 5, "all_gather", 128, False),
        ("gelu", 1, "all_reduce", 256, False),
        ("copy", 3, "reduce_scatter", 128, False),
    )
}
"""Name -> kernel, how often, collective, MiB, and whether the collective is enqueued last.

The first twelve, five more, and a second round of twelve, predicted with numbers of the first.
"""
ROUND = 17
"""Pairs of the first round."""
TRANSFERS = (0.0625, 1, 4, 16, 64, 256, 512)
"""Sizes of transfers from the first GPU to the second [MiB]."""


def drawn(*shape: int) -> Tensor:
    """Random numbers in bf16."""
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def kernel_of(kernel: str) -> Callable[[], Tensor]:
    """What runs beside: a product by its M, N and K, attention, or what reads 256 MiB."""
    if kernel.startswith("product"):
        sizes = {"4k": (4096,) * 3, "8k": (8192,) * 3, "wide": (2048, 8192, 8192), "thin": (64, 16384, 8192)}
        sizes |= {"6k": (6144,) * 3, "tall": (16384, 3072, 4096)}
        m, n, k = sizes[kernel.partition("_")[2]]
        a, b = drawn(m, k), drawn(n, k)
        return lambda: a @ b.T
    if kernel == "attention":
        q, k, v = (drawn(2, 32, 4096, 128) for _ in "qkv")
        return lambda: F.scaled_dot_product_attention(q, k, v)
    x, weight = drawn(16384, 8192), drawn(8192)
    return {
        "add": lambda: x + 1.0,
        "norm": lambda: F.rms_norm(x, (8192,), weight),
        "softmax": lambda: x.softmax(-1),
        "transpose": lambda: x.T.contiguous(),
        "gelu": lambda: F.gelu(x),
        "copy": x.clone,
    }[kernel]


def collective_of(collective: str, mib: float) -> Callable[[], Any]:
    """A collective of so many MiB of all ranks' data."""
    whole = torch.zeros(int(mib * MIB) // 2, device="cuda", dtype=torch.bfloat16)
    part = torch.zeros(whole.numel() // dist.get_world_size(), device="cuda", dtype=torch.bfloat16)
    return {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
    }[collective]


def group() -> None:
    """A process group, once."""
    if not dist.is_initialized():
        dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))))


def pair_inputs(name: str) -> tuple[Any, ...]:
    """What a pair runs: kernel, how often, collective, whether it is late, and its stream."""
    group()
    kernel, times, collective, mib, late = PAIRS[name]
    return kernel_of(kernel), times, collective_of(collective, mib), late, torch.cuda.Stream()


def pair(run: Callable[[], Tensor], times: int, reduce: Callable[[], Any], late: bool, stream: Any) -> None:
    """Both, waited for."""
    stream.wait_stream(torch.cuda.current_stream())

    def beside() -> None:
        with torch.cuda.stream(stream):
            reduce()

    if not late:
        beside()
    for _ in range(times):
        run()
    if late:
        beside()
    torch.cuda.current_stream().wait_stream(stream)


class Attention(nn.Module):
    """Of heads of 128."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, tokens, width]."""
        q, k, v = (w(x).unflatten(-1, (-1, 128)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        return self.wo(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Gated."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w1, self.w3 = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.w2 = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, tokens, width]."""
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    """Attention and a gated product."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(width), FeedForward(width, hidden)
        self.attention_norm, self.ffn_norm = nn.RMSNorm(width), nn.RMSNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, tokens, width]."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


Sizes = tuple[int, int, int, int, int]
"""Width, hidden width, layers, batch, tokens."""
FIRST: Sizes = (WIDTH, HIDDEN, LAYERS, BATCH, TOKENS)


def blocks(sizes: Sizes) -> nn.Sequential:
    """On the GPU."""
    return nn.Sequential(*(Block(*sizes[:2]) for _ in range(sizes[2]))).to("cuda", torch.bfloat16)


def tokens_of(sizes: Sizes) -> Tensor:
    """What a step is given."""
    return drawn(*sizes[3:], sizes[0])


def train(model: nn.Module, x: Tensor) -> None:
    """Forward and backward, gradients given up."""
    model(x).float().square().mean().backward()
    model.zero_grad(set_to_none=True)


def local_inputs(sizes: Sizes = FIRST) -> tuple[nn.Module, Tensor]:
    """Of one GPU."""
    return blocks(sizes), tokens_of(sizes)


def ddp_inputs(sizes: Sizes = FIRST) -> tuple[nn.Module, Tensor]:
    """A replica on each GPU."""
    group()
    return DistributedDataParallel(blocks(sizes)), tokens_of(sizes)


def fsdp_inputs(sizes: Sizes = FIRST) -> tuple[nn.Module, Tensor]:
    """A part of each parameter on each GPU."""
    group()
    model = blocks(sizes)
    for block in model:
        fully_shard(block)
    fully_shard(model)
    return model, tokens_of(sizes)


def tensor_parallel_inputs() -> tuple[nn.Module, Tensor]:
    """Products by columns and rows, norms by parts of the sequence; it is given and gives a part of the sequence."""
    group()
    world = dist.get_world_size()
    mesh = init_device_mesh("cuda", (world,), mesh_dim_names=("tp",))
    model = blocks(FIRST)
    gathered = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    columns = ("attention.wq", "attention.wk", "attention.wv", "feed_forward.w1", "feed_forward.w3")
    plan: dict[str, Any] = {
        **{name: SequenceParallel(use_local_output=True) for name in ("attention_norm", "ffn_norm")},
        **{name: gathered for name in ("attention", "feed_forward")},
        **{name: ColwiseParallel() for name in columns},
        **{name: RowwiseParallel(output_layouts=Shard(1)) for name in ("attention.wo", "feed_forward.w2")},
    }
    for block in model:
        parallelize_module(block, mesh, plan)
    return model, drawn(BATCH, TOKENS // world, WIDTH)


local = ddp = fsdp = tensor_parallel = local_2 = ddp_2 = fsdp_2 = train


def local_2_inputs() -> tuple[nn.Module, Tensor]:
    """Of other sizes."""
    return local_inputs(SECOND)


def ddp_2_inputs() -> tuple[nn.Module, Tensor]:
    """Of other sizes."""
    return ddp_inputs(SECOND)


def fsdp_2_inputs() -> tuple[nn.Module, Tensor]:
    """Of other sizes."""
    return fsdp_inputs(SECOND)


def decode_inputs() -> tuple[Any, ...]:
    """Four layers of Llama-3-70B's widths, a half of each: 16 sequences of 2,048 tokens, a token each."""
    group()
    world, kept = dist.get_world_size(), []
    for _ in range(4):
        heads, cache = 64 // world * 128, [drawn(16, 64 // world, 2048, 128) for _ in "kv"]
        weights = [(3 * heads, 8192), (8192, heads), (2 * 28672 // world, 8192), (8192, 28672 // world)]
        kept.append((*(drawn(*shape) * 0.01 for shape in weights), *cache))
    return kept, drawn(16, 8192), drawn(8192)


def decode(layers: Any, x: Tensor, weight: Tensor) -> Tensor:
    """As a server runs them in a CUDA graph: two all-reduces a layer."""
    for qkv, out, up, down, keys, values in layers:
        q = F.linear(F.rms_norm(x, (8192,), weight), qkv)[:, : out.shape[1]]
        mixed = F.scaled_dot_product_attention(q.reshape(16, -1, 1, 128), keys, values)
        made = F.linear(mixed.flatten(1), out)
        dist.all_reduce(made)
        x = x + made
        gate, wide = F.linear(F.rms_norm(x, (8192,), weight), up).chunk(2, -1)
        made = F.linear(F.silu(gate) * wide, down)
        dist.all_reduce(made)
        x = x + made
    return x


def transfer_inputs(name: str) -> tuple[Any, ...]:
    """What is sent, and what comes."""
    group()
    size = int(float(name.rpartition("_")[2]) * MIB) // 2
    return torch.zeros(size, device="cuda", dtype=torch.bfloat16), torch.zeros(
        size, device="cuda", dtype=torch.bfloat16
    )


def one_way(sent: Tensor, coming: Tensor) -> None:
    """From the first GPU to the second."""
    if dist.get_rank() == 0:
        dist.send(sent, 1)
    else:
        dist.recv(coming, 0)


def both_ways(sent: Tensor, coming: Tensor) -> None:
    """At a time."""
    other = 1 - dist.get_rank()
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, other), dist.P2POp(dist.irecv, coming, other)])
    for work in works:
        work.wait()


STEPS = ("local", "ddp", "fsdp", "tensor_parallel", "local_2", "ddp_2", "fsdp_2")
for _name in PAIRS:
    globals()[_name], globals()[f"{_name}_inputs"] = pair, lambda name=_name: pair_inputs(name)
for _way in (one_way, both_ways):
    for _mib in TRANSFERS:
        _name = f"{_way.__name__}_{str(_mib).replace('.', 'p')}"
        globals()[_name] = _way
        globals()[f"{_name}_inputs"] = lambda name=f"transfer_{_mib}": transfer_inputs(name)
NAMES = (*PAIRS, *(f"{way}_{str(mib).replace('.', 'p')}" for way in ("one_way", "both_ways") for mib in TRANSFERS))
