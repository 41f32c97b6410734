"""Steps of several GPUs as people write them: `profile` records them with `--gpus`, one process a file."""

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed._functional_collectives import all_gather_tensor, all_reduce, all_to_all_single
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

WIDTH, HEADS, LAYERS, TOKENS, VOCABULARY = 1024, 8, 2, 2048, 4096


class Attention(nn.Module):
    """Of heads of 128."""

    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x):
        """[batch, tokens, width]."""
        batch, tokens, _ = x.shape
        q, k, v = (w(x).view(batch, tokens, -1, 128).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(mixed.transpose(1, 2).reshape(batch, tokens, -1))


class FeedForward(nn.Module):
    """Gated."""

    def __init__(self):
        super().__init__()
        self.w1, self.w3 = (nn.Linear(WIDTH, 4 * WIDTH, bias=False) for _ in range(2))
        self.w2 = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        """[batch, tokens, width]."""
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    """Attention and a gated product."""

    def __init__(self):
        super().__init__()
        self.attention, self.feed_forward = Attention(), FeedForward()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)

    def forward(self, x):
        """[batch, tokens, width]."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Transformer(nn.Module):
    """From tokens to logits."""

    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.output = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        """[batch, tokens]."""
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def blocks():
    """On the GPU."""
    return nn.Sequential(*(Block() for _ in range(4))).to("cuda", torch.bfloat16)


def batch():
    """What they are given."""
    return torch.randn(2, TOKENS, WIDTH, device="cuda", dtype=torch.bfloat16)


def tokens():
    """What the transformer is given."""
    return torch.randint(0, VOCABULARY, (1, TOKENS), device="cuda")


def ddp_inputs():
    """A replica on each GPU."""
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return DistributedDataParallel(blocks()), batch()


def ddp(model, x):
    """Gradients are reduced in buckets while the backward pass goes on."""
    model(x).float().square().mean().backward()
    model.zero_grad()


def fsdp_inputs():
    """A part of each parameter on each GPU."""
    dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
    model = blocks()
    for block in model:
        fully_shard(block)
    fully_shard(model)
    return model, batch()


def fsdp(model, x):
    """Parameters are gathered ahead, gradients reduced and scattered."""
    model(x).float().square().mean().backward()
    model.zero_grad()


def hybrid_inputs():
    """Shards over half of the GPUs, replicas over the other dimension, in mixed precision."""
    mesh = init_device_mesh("cuda", (2, int(os.environ["WORLD_SIZE"]) // 2), mesh_dim_names=("replicate", "shard"))
    with torch.device("meta"):
        model = Transformer()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for part in (*model.layers, model):
        fully_shard(part, mesh=mesh, mp_policy=policy)
    model.to_empty(device="cuda")
    return model, tokens(), torch.optim.AdamW(model.parameters())


def hybrid(model, given, optimizer):
    """A whole step of training."""
    model(given).float().logsumexp(-1).mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def tensor_parallel_inputs():
    """Products by columns and rows, norms by parts of the sequence, as torchtitan's Llama has it."""
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),), mesh_dim_names=("tp",))
    model = Transformer().to("cuda", torch.bfloat16)
    embedded = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
    written = ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())
    parallelize_module(model, mesh, {"tok_embeddings": embedded, "norm": SequenceParallel(), "output": written})
    gathered = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    columns = ("attention.wq", "attention.wk", "attention.wv", "feed_forward.w1", "feed_forward.w3")
    plan = {
        **{name: SequenceParallel() for name in ("attention_norm", "ffn_norm")},
        **{name: gathered for name in ("attention", "feed_forward")},
        **{name: ColwiseParallel() for name in columns},
        **{name: RowwiseParallel(output_layouts=Shard(1)) for name in ("attention.wo", "feed_forward.w2")},
    }
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)
    return model, tokens()


def tensor_parallel(model, given):
    """Forward."""
    return model(given).float().logsumexp(-1).mean()


def experts_inputs():
    """Two experts on each GPU."""
    dist.init_process_group("nccl")
    weights = (torch.randn(2, *shape, device="cuda").bfloat16() for shape in ((WIDTH, 4096), (4096, WIDTH)))
    return batch().view(-1, WIDTH), *weights


def experts(x, up, down):
    """Tokens go to their experts and come back."""
    mine = torch.empty_like(x)
    dist.all_to_all_single(mine, x)
    made = torch.bmm(F.silu(torch.bmm(mine.view(2, -1, WIDTH), up)), down).view(-1, WIDTH)
    return all_to_all_single(made, None, None, dist.group.WORLD) + x


def pipeline_inputs():
    """Some of the layers."""
    dist.init_process_group("nccl")
    return blocks()


def pipeline(model):
    """Four pieces of a batch go from GPU to GPU."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    for _ in range(4):
        x = batch()
        if rank > 0:
            dist.recv(x, rank - 1)
        y = model(x)
        if rank < last:
            dist.send(y, rank + 1)


def ring_inputs():
    """Queries, keys and values of a part of the sequence."""
    dist.init_process_group("nccl")
    return [torch.randn(1, 8, 8192, 128, device="cuda", dtype=torch.bfloat16) for _ in "qkv"]


def ring(q, k, v):
    """Keys and values go round while attention is at those of the neighbour."""
    rank, count = dist.get_rank(), dist.get_world_size()
    held = torch.stack((k, v))
    for turn in range(count):
        if turn < count - 1:
            coming = torch.empty_like(held)
            to, origin = (rank + 1) % count, (rank - 1) % count
            moves = [dist.P2POp(dist.isend, held, to), dist.P2POp(dist.irecv, coming, origin)]
            works = dist.batch_isend_irecv(moves)
        F.scaled_dot_product_attention(q, held[0], held[1])
        if turn < count - 1:
            for work in works:
                work.wait()
            held = coming


def compiled_inputs():
    """A product's operands."""
    dist.init_process_group("nccl")
    return [torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) for _ in "xw"]


@torch.compile
def compiled(x, w):
    """A sum over GPUs, and a gathered result."""
    return F.gelu(all_gather_tensor(all_reduce(x @ w, "sum", dist.group.WORLD), 0, dist.group.WORLD)) * 2


def beside_inputs():
    """A product's operands, what is reduced beside it, and a stream."""
    dist.init_process_group("nccl")
    operands = [torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in "ab"]
    return *operands, torch.zeros(8 << 20, device="cuda", dtype=torch.bfloat16), torch.cuda.Stream()


def beside(a, b, x, stream):
    """On another stream, both waited for."""
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        dist.all_reduce(x)
    a @ b
    torch.cuda.current_stream().wait_stream(stream)
    x += 1


def unlike(x):
    """A mesh that there is not."""
    init_device_mesh("cuda", (4, 4))


def unlike_inputs():
    """Anything."""
    return batch()
