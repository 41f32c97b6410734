"""A fourth set of functions, of models and libraries that no other set holds, written before any was predicted."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_blocks import split_heads
from torch_cases import HALF, Case, drawn, module, numbers
from torch_second import Made

FOURTH: dict[str, Case] = {}
FLOAT = torch.float32


def fourth(case: Case) -> Case:
    """Register a case; one named `train_...` is a training step."""
    FOURTH[case.__name__] = case
    return case


@fourth
def disentangled_attention(device: str) -> Made:
    """DeBERTa's: scores of contents, and of contents with distances, gathered both ways."""
    qkv, out = drawn(device, 2304, 768), drawn(device, 768, 768)

    def run(x: Tensor, table: Tensor) -> Tensor:
        q, k, v = (split_heads(part, 12) for part in F.linear(x, qkv).chunk(3, -1))
        far_q, far_k = (split_heads(F.linear(table, weight), 12) for weight in (qkv[:768], qkv[768:1536]))
        place = torch.arange(x.shape[1], device=x.device)
        apart = (place[:, None] - place + 256).clamp(0, 511).expand(x.shape[0], 12, -1, -1)
        from_content = (q @ far_k.mT).gather(-1, apart)
        from_place = (k @ far_q.mT).gather(-1, apart).mT
        scores = (q @ k.mT + from_content + from_place) * (3 * 64) ** -0.5
        return F.linear((scores.softmax(-1) @ v).transpose(1, 2).flatten(2), out)

    return run, (drawn(device, 8, 500, 768), drawn(device, 1, 512, 768))


@fourth
def mamba_token(device: str) -> Made:
    """Mamba 2.8B's layer for a token of each of 128 sequences: a short window and a state, both moved on."""
    inward, back = drawn(device, 10240, 2560), drawn(device, 2560, 5120)
    narrow, wide = drawn(device, 192, 5120), drawn(device, 5120, 160)
    short, skip = drawn(device, 5120, 4), drawn(device, 5120)
    decay = drawn(device, 5120, 16, dtype=FLOAT)

    def run(x: Tensor, window: Tensor, state: Tensor) -> Tensor:
        h, gate = F.linear(x, inward).chunk(2, -1)
        window.copy_(window.roll(-1, -1))
        window[..., -1] = h
        h = F.silu((window * short).sum(-1))
        step, read_in, read_out = F.linear(h, narrow).split((160, 16, 16), -1)
        step = F.softplus(F.linear(step, wide).float())
        added = (step * h)[..., None] * read_in[:, None]
        state.copy_(state * torch.exp(step[..., None] * -decay.exp()) + added)
        y = torch.einsum("bdn,bn->bd", state.to(x.dtype), read_out) + h * skip
        return F.linear(y * F.silu(gate), back)

    state = drawn(device, 128, 5120, 16, dtype=FLOAT)
    return run, (drawn(device, 128, 2560), drawn(device, 128, 5120, 4), state)


@fourth
def state_space_chunks(device: str) -> Made:
    """Mamba 2's scan: products inside 16 chunks of 128 steps, states passed on from chunk to chunk."""

    def run(x: Tensor, decay: Tensor, b: Tensor, c: Tensor) -> Tensor:
        total = -F.softplus(decay).cumsum(-1)
        later = torch.ones(128, 128, device=x.device, dtype=torch.bool).triu(1)
        apart = (total[..., :, None] - total[..., None, :]).masked_fill(later, float("-inf")).exp()
        inside = ((c @ b.mT) * apart).to(x.dtype) @ x
        left = (total[..., -1:] - total).exp()[..., None]
        made = (b * left).to(x.dtype).mT @ x
        state, before = torch.zeros_like(made[:, :, 0]), []
        for chunk in range(made.shape[2]):
            before.append(state)
            state = state * total[:, :, chunk, -1, None, None].exp().to(x.dtype) + made[:, :, chunk]
        return inside + (c * total.exp()[..., None]).to(x.dtype) @ torch.stack(before, 2)

    decay = drawn(device, 2, 32, 16, 128, dtype=FLOAT)
    return run, (drawn(device, 2, 32, 16, 128, 64), decay, *(drawn(device, 2, 32, 16, 128, 128) for _ in "bc"))


@fourth
def cosine_windows(device: str) -> Made:
    """Swin v2's attention in windows of 8 x 8: cosines, a bias that an MLP makes of distances, norm behind; fp16."""
    single = torch.float16
    qkv, out = (module(lambda wide=wide: nn.Linear(192, wide), device, single) for wide in (576, 192))
    norm = module(lambda: nn.LayerNorm(192), device, single)
    bias = module(lambda: nn.Sequential(nn.Linear(2, 512), nn.ReLU(), nn.Linear(512, 6, bias=False)), device, single)

    def run(x: Tensor, scale: Tensor, table: Tensor, places: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (split_heads(part, 6) for part in qkv(x).chunk(3, -1))
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * scale.clamp(max=4.6052).exp()
        scores = scores + 16 * torch.sigmoid(bias(table)[places].view(64, 64, 6).permute(2, 0, 1))
        scores = (scores.unflatten(0, (-1, 16)) + mask[:, None]).flatten(0, 1)
        return x + norm(out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)))

    given = (drawn(device, 6, 1, 1, dtype=single), drawn(device, 225, 2, dtype=single), numbers(device, 225, 4096))
    return run, (drawn(device, 768, 64, 192, dtype=single), *given, drawn(device, 16, 64, 64, dtype=single))


@fourth
def sigmoid_pairs_loss(device: str) -> Made:
    """SigLIP's loss: each pair of 4,096 images and texts a question of its own."""

    def run(image: Tensor, text: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
        logits = (F.normalize(image, dim=-1) @ F.normalize(text, dim=-1).T).float() * scale.exp() + bias
        signs = 2 * torch.eye(logits.shape[0], device=logits.device) - 1
        return -F.logsigmoid(signs * logits).sum(-1).mean()

    single = (drawn(device, 1, dtype=FLOAT)[0] for _ in "sb")
    return run, (drawn(device, 4096, 1152), drawn(device, 4096, 1152), *single)


class NormedAfter(nn.Module):
    """OLMo 2's layer: norms behind attention and MLP, Q and K normed over all heads, rotation by halves."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(2048) for _ in range(4))
        self.q, self.k, self.v, self.out = (nn.Linear(2048, 2048, bias=False) for _ in "qkvo")
        self.gate, self.up = (nn.Linear(2048, 8192, bias=False) for _ in "gu")
        self.down = nn.Linear(8192, 2048, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """(B, S, 2048) -> the same."""
        q, k = (split_heads(norm(to(x)), 16) for norm, to in zip(self.norms, (self.q, self.k), strict=False))
        q, k = (t * cos + torch.cat((-t[..., 64:], t[..., :64]), -1) * sin for t in (q, k))
        o = F.scaled_dot_product_attention(q, k, split_heads(self.v(x), 16), is_causal=True)
        x = x + self.norms[2](self.out(o.transpose(1, 2).flatten(2)))
        return x + self.norms[3](self.down(F.silu(self.gate(x)) * self.up(x)))


@fourth
def olmo_layer(device: str) -> Made:
    given = (drawn(device, 3, 1800, 2048), drawn(device, 1800, 128), drawn(device, 1800, 128))
    return module(NormedAfter, device), given


@fourth
def preference_loss(device: str) -> Made:
    """DPO's loss: log probabilities of four answers preferred and four not, by a policy and by a reference."""

    def run(policy: Tensor, reference: Tensor, ids: Tensor, counted: Tensor) -> Tensor:
        now, before = (
            (logits.float().log_softmax(-1).gather(-1, ids[..., None])[..., 0] * counted).sum(-1)
            for logits in (policy, reference)
        )
        chosen, rejected = (now - before).chunk(2)
        return -F.logsigmoid(0.1 * (chosen - rejected)).mean()

    logits = [drawn(device, 8, 640, 49152) for _ in "pr"]
    return run, (*logits, numbers(device, 49152, 8, 640), torch.ones(8, 640, device=device))


@fourth
def triangle_update(device: str) -> Made:
    """AlphaFold's: each pair of 300 residues from all third ones, gated going in and coming out."""
    norms = [module(lambda: nn.LayerNorm(128), device) for _ in range(2)]
    to_sides, gates = (module(lambda: nn.Linear(128, 256), device) for _ in range(2))
    out, gate = (module(lambda: nn.Linear(128, 128), device) for _ in range(2))

    def run(pairs: Tensor) -> Tensor:
        z = norms[0](pairs)
        left, right = (to_sides(z) * torch.sigmoid(gates(z))).chunk(2, -1)
        h = torch.einsum("ikc,jkc->ijc", left, right)
        return pairs + torch.sigmoid(gate(z)) * out(norms[1](h))

    return run, (drawn(device, 300, 300, 128),)


@fourth
def cross_network(device: str) -> Made:
    """DCN v2: three layers that multiply 1,053 features by what a matrix makes of them; float32."""
    layers = [module(lambda: nn.Linear(1053, 1053), device, FLOAT) for _ in range(3)]

    def run(features: Tensor) -> Tensor:
        x = features
        for layer in layers:
            x = features * layer(x) + x
        return x

    return run, (drawn(device, 16384, 1053, dtype=FLOAT),)


@fourth
def speculative_check(device: str) -> Made:
    """Five drafted tokens of 32 sequences accepted or not; the next one drawn from what is left."""

    def run(logits: Tensor, draft: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        aim = logits.float().softmax(-1)
        ratio = (aim[:, :-1].gather(-1, ids[..., None]) / draft.gather(-1, ids[..., None]))[..., 0]
        count = (torch.rand_like(ratio) < ratio).long().cumprod(-1).sum(-1)
        rest = torch.cat(((aim[:, :-1] - draft).clamp(min=0), aim[:, -1:]), 1)
        rest = rest[torch.arange(count.shape[0], device=count.device), count]
        rest = rest / rest.sum(-1, keepdim=True)
        return count, (rest / torch.empty_like(rest).exponential_()).argmax(-1)

    draft = drawn(device, 32, 5, 128256, dtype=FLOAT).softmax(-1)
    return run, (drawn(device, 32, 6, 128256), draft, numbers(device, 128256, 32, 5))


@fourth
def int8_dynamic_linear(device: str) -> Made:
    """A product of int8, of rows rounded as they come and weights rounded before."""

    def run(x: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
        scale = x.abs().amax(-1, keepdim=True).float().clamp(min=1e-5) / 127
        rounded = (x / scale).round().clamp(-128, 127).to(torch.int8)
        return (torch._int_mm(rounded, weight.t()) * scale * scales).to(x.dtype)

    weight = numbers(device, 127, 11008, 4096).to(torch.int8)
    return run, (drawn(device, 1000, 4096), weight, drawn(device, 11008, dtype=FLOAT))


@fourth
def fp8_rows_linear(device: str) -> Made:
    """A product of eight-bit floats, with a scale for each row and each column."""

    def run(x: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
        scale = x.abs().amax(-1, keepdim=True).float().clamp(min=1e-12) / 448
        small = (x.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        return torch._scaled_mm(small, weight.t(), scale, scales, out_dtype=HALF, use_fast_accum=True)

    weight = drawn(device, 13824, 5120).to(torch.float8_e4m3fn)
    return run, (drawn(device, 3000, 5120), weight, torch.ones(1, 13824, device=device))


@fourth
def muon_update(device: str) -> Made:
    """Muon: four gradients into their momenta, made orthogonal by five iterations."""

    def run(gradients: Tensor, momenta: Tensor) -> Tensor:
        momenta.lerp_(gradients, 0.05)
        x = gradients.lerp(momenta, 0.95).to(HALF)
        x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
        for _ in range(5):
            a = x @ x.mT
            x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
        return x

    return run, tuple(drawn(device, 4, 1536, 6144, dtype=FLOAT) for _ in "gm")


@fourth
def paged_decode(device: str) -> Made:
    """A token of each of 48 sequences asks up to 2,048 keys, gathered from pages of 16 by a table."""

    def run(q: Tensor, keys: Tensor, values: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
        k, v = (pages[table].flatten(1, 2).transpose(1, 2) for pages in (keys, values))
        seen = torch.arange(k.shape[2], device=q.device) < lengths[:, None]
        return F.scaled_dot_product_attention(q.unflatten(1, (8, 4)), k, v, attn_mask=seen[:, None, None]).flatten(1)

    pages = [drawn(device, 8192, 16, 8, 128) for _ in "kv"]
    return run, (drawn(device, 48, 32, 128), *pages, numbers(device, 8192, 48, 128), numbers(device, 2047, 48) + 1)


@fourth
def tag_chains(device: str) -> Made:
    """A conditional random field's sum over all chains of 25 tags, 48 words one after another; float32."""

    def run(scores: Tensor, moves: Tensor, first: Tensor, last: Tensor) -> Tensor:
        total = first + scores[:, 0]
        for now in scores[:, 1:].unbind(1):
            total = torch.logsumexp(total[:, :, None] + moves + now[:, None], 1)
        return torch.logsumexp(total + last, -1).sum()

    shapes = ((256, 48, 25), (25, 25), (25,), (25,))
    return run, tuple(drawn(device, *shape, dtype=FLOAT) for shape in shapes)
