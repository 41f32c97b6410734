"""Steps of a user: a small model, its training, code that breaks graphs or depends on data, and kernels of its own."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor, nn

WIDTH, WORDS, LENGTH = 64, 1000, 128


class Block(nn.Module):
    """A residual MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Args: x: tokens, of `WIDTH`."""
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    """An embedding, and two blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList([Block(), Block()])

    def forward(self, ids: Tensor) -> Tensor:
        """Args: ids: of words."""
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return x.sum()


def inputs() -> tuple[Model, Tensor]:
    """What steps are given."""
    return Model().cuda().bfloat16(), torch.randint(0, WORDS, (LENGTH,), device="cuda")


def step(model: Model, ids: Tensor) -> Tensor:
    """One forward pass."""
    return model(ids)


def adam(model: Model, ids: Tensor) -> None:
    """A whole training step."""
    optimizer = torch.optim.AdamW(model.parameters())
    model(ids).backward()
    optimizer.step()


def detached(model: Model, ids: Tensor) -> Tensor:
    """A loss that only reaches the embedding."""
    return model.words(ids).sum() + model(ids).detach()


def steered(model: Model, ids: Tensor) -> Tensor:
    """The host reads a number of the device."""
    x = model.words(ids)
    if x.sum().item() > 0:
        x = x * 2
    return x + 1


def filtered(model: Model, ids: Tensor) -> Tensor:
    """A shape that depends on data."""
    x = model.words(ids)
    return x[x > 0]


def routed(model: Model, ids: Tensor) -> Tensor:
    """Indices that the code does not know."""
    return model.words(model.words(ids).float().mean(1).topk(4).indices)


@torch.no_grad()
def summed(model: Model, ids: Tensor) -> Tensor:
    """Indices that a kernel makes of some that the code does not know."""
    chosen = model.words(ids).float().topk(5).indices
    return model.words(2 * chosen.sum(-1) + 3)


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """y = 2 x."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


tuned = triton.autotune([triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 512})], key=["n"])(double)


def launches(model: Model, ids: Tensor) -> Tensor:
    """Kernels of the user's among operations of torch."""
    x = model.words(ids).flatten()
    y, z = torch.empty_like(x), torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](y, z, x.numel())
    return z.exp()


def alone() -> Tensor:
    """A step that makes its inputs itself."""
    x = torch.randn(256, 256, device="cuda")
    return x @ x


def encoder() -> tuple[nn.Module, Tensor]:
    """A layer that torch runs by code of its own, and tokens."""
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True, activation="gelu", device="cuda")
    return layer.bfloat16().eval(), torch.empty(2, LENGTH, WIDTH, device="cuda", dtype=torch.bfloat16)


@torch.no_grad()
def encode() -> Tensor:
    """The layer, without gradients."""
    layer, tokens = encoder()
    return layer(tokens)


def remember() -> Tensor:
    """A cell of a recurrent layer, and a layer, without gradients."""
    cell, layer = nn.GRUCell(WIDTH, WIDTH, device="cuda"), nn.LSTM(WIDTH, WIDTH, device="cuda")
    with torch.no_grad():
        state = cell(torch.empty(2, WIDTH, device="cuda"))
        return layer(state[None])[0]


def repeat_cell() -> Tensor:
    """A cell of a recurrent layer four times, without gradients."""
    cell = nn.GRUCell(WIDTH, WIDTH, device="cuda")
    given, state = torch.empty(2, WIDTH, device="cuda"), torch.empty(2, WIDTH, device="cuda")
    with torch.no_grad():
        for _ in range(4):
            state = cell(given, state)
    return state


def infer() -> Tensor:
    """The same, where gradients are off for good."""
    layer, tokens = encoder()
    with torch.inference_mode():
        return layer(tokens) @ tokens.mT


def sample() -> Tensor:
    """Images read at grids of aligned corners, as cuDNN does, and of others."""
    images = torch.randn(2, 3, 16, 16, device="cuda")
    grid = torch.randn(2, 8, 8, 2, device="cuda")
    return torch.stack([F.grid_sample(images, grid, align_corners=aligned) for aligned in (True, False)])


def private() -> tuple[Tensor, ...]:
    """Gradients of every row by itself, of losses whose labels are known."""
    weights, rows = torch.randn(10, WIDTH, device="cuda"), torch.randn(32, WIDTH, device="cuda")
    labels = torch.arange(32, device="cuda") % 10

    def loss(weights: Tensor, row: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy((weights @ row)[None], label[None])

    return torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(weights, rows, labels)


def hashed(model: Model, ids: Tensor) -> Tensor:
    """Rows of eight tables that lie behind each other, at places that numbers are hashed to."""
    keys = model.words(ids).float().topk(8).indices
    table = torch.empty(8 * 1024, 2, device="cuda")
    return table[(keys ^ 12345) % 1024 + torch.arange(8, device="cuda") * 1024]


def curved() -> None:
    """Gradients of a second derivative along a line: compiled, some are products with zeros without memory."""
    layers = [nn.Linear(WIDTH, WIDTH, device="cuda") for _ in range(3)]
    made = nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])
    points, along = torch.randn(32, WIDTH, device="cuda"), torch.randn(32, WIDTH, device="cuda")
    slope = lambda at: torch.func.jvp(made, (at,), (along,))[1]  # noqa: E731
    torch.func.jvp(slope, (points,), (along,))[1].square().mean().backward()


def learn() -> None:
    """Gradients of recurrent networks of two layers in both directions: an LSTM, a GRU, a plain one."""
    x = torch.empty(3, 2, WIDTH, device="cuda")
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        kind(WIDTH, 32, 2, bidirectional=True, device="cuda")(x)[0].sum().backward()
