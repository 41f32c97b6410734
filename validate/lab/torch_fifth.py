"""A fifth set of functions, that no author of a predictor picked: parts of language models and recommenders."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_parts import FLOAT, HALF, Attention, Case, Layer, Made, drawn, module, numbers, rms, split_heads

FIFTH: dict[str, Case] = {}


def fifth(case: Case) -> Case:
    """Register a case; one named `train_...` is a training step."""
    FIFTH[case.__name__] = case
    return case


@fifth
def differential_attention(device: str) -> Made:
    """Diff Transformer 3B's: a second attention map taken from the first, heads normed."""
    qkv, out = drawn(device, 9216, 3072), drawn(device, 3072, 3072)
    lambdas, weight = drawn(device, 4, 128, dtype=FLOAT), drawn(device, 256)

    def run(x: Tensor) -> Tensor:
        q, k, v = F.linear(x, qkv).chunk(3, -1)
        q, k, v = split_heads(q, 24), split_heads(k, 24), split_heads(v, 12)
        later = torch.full((x.shape[1], x.shape[1]), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
        maps = (q * 128**-0.5 @ k.mT + later).softmax(-1, dtype=FLOAT).to(x.dtype).unflatten(1, (12, 2))
        share = (lambdas[0] * lambdas[1]).sum().exp() - (lambdas[2] * lambdas[3]).sum().exp() + 0.8
        o = rms((maps[:, :, 0] - share * maps[:, :, 1]) @ v, weight) * 0.2
        return F.linear(o.transpose(1, 2).flatten(2), out)

    return run, (drawn(device, 2, 1536, 3072),)


@fifth
def gated_delta_chunks(device: str) -> Made:
    """Qwen3-Next's gated delta rule: 16 chunks of 64 steps, a triangle solved in each of them; float32."""

    def run(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, rate: Tensor) -> Tensor:
        q, k = (t * torch.rsqrt(t.pow(2).sum(-1, keepdim=True) + 1e-6) for t in (q, k))
        total, rate = -F.softplus(decay).cumsum(-1), torch.sigmoid(rate)[..., None]
        apart = (total[..., :, None] - total[..., None, :]).tril().exp().tril()
        near = ((k * rate) @ k.mT * apart).tril(-1) + torch.eye(64, device=q.device)
        asked = torch.cat((v * rate, k * rate * total.exp()[..., None]), -1)
        value, seen = torch.linalg.solve_triangular(near, asked, upper=False, unitriangular=True).chunk(2, -1)
        state, made = q.new_zeros(*q.shape[:2], 128, 128), []
        for chunk in range(q.shape[2]):
            asks, keys, sums = q[:, :, chunk] * 128**-0.5, k[:, :, chunk], total[:, :, chunk, :, None]
            fresh = value[:, :, chunk] - seen[:, :, chunk] @ state
            made.append((asks * sums.exp()) @ state + (asks @ keys.mT * apart[:, :, chunk]) @ fresh)
            last = sums[..., -1:, :]
            state = state * last.exp() + (keys * (last - sums).exp()).mT @ fresh
        return torch.stack(made, 2)

    shapes = (*[(2, 32, 16, 64, 128)] * 3, (2, 32, 16, 64), (2, 32, 16, 64))
    return run, tuple(drawn(device, *shape, dtype=FLOAT) for shape in shapes)


@fifth
def group_limited_router(device: str) -> Made:
    """DeepSeek-V3's router: 256 experts in eight groups, the best four groups, the best eight experts of these."""

    def run(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        scores = torch.sigmoid(F.linear(x.float(), weight))
        favoured = (scores + bias).unflatten(-1, (8, 32))
        groups = favoured.topk(2, -1).values.sum(-1).topk(4, -1, sorted=False).indices
        allowed = torch.zeros_like(favoured[..., 0]).scatter_(1, groups, 1.0)[..., None].expand(-1, -1, 32)
        experts = favoured.masked_fill(allowed == 0, 0.0).flatten(1).topk(8, -1, sorted=False).indices
        shares = scores.gather(1, experts)
        return experts, shares / (shares.sum(-1, keepdim=True) + 1e-20) * 2.5

    return run, (drawn(device, 6000, 7168), drawn(device, 256, 7168, dtype=FLOAT), drawn(device, 256, dtype=FLOAT))


@fifth
def multi_token_prediction(device: str) -> Made:
    """MiMo-7B's: a state and the next token's embedding joined, a layer, the vocabulary; 900 tokens."""
    table, head = drawn(device, 151680, 4096), drawn(device, 151680, 4096)
    norms = [module(lambda: nn.RMSNorm(4096), device) for _ in range(3)]
    join = module(lambda: nn.Linear(8192, 4096, bias=False), device)
    layer = module(lambda: Layer(4096, 32, 8, 11008), device)

    def run(state: Tensor, ids: Tensor) -> Tensor:
        h = join(torch.cat((norms[0](state), norms[1](F.embedding(ids, table))), -1))
        return F.linear(norms[2](layer(h)), head)

    return run, (drawn(device, 1, 900, 4096), numbers(device, 151680, 1, 900))


@fifth
def qwen_vision_attention(device: str) -> Made:
    """Qwen2.5-VL's tower: patches turned by row and column, an attention for each of five images in a pack."""
    qkv, out = (module(lambda wide=wide: nn.Linear(1280, wide), device) for wide in (3840, 1280))
    sizes = (1024, 2304, 576, 1840, 700)

    def run(x: Tensor, table: Tensor, places: Tensor) -> Tensor:
        q, k, v = qkv(x).unflatten(-1, (3, 16, 80)).unbind(1)
        angles = table[places].flatten(1)
        angles = torch.cat((angles, angles), -1)[:, None]
        cos, sin = angles.cos(), angles.sin()
        q, k = (t * cos + torch.cat((-t[..., 40:], t[..., :40]), -1) * sin for t in (q.float(), k.float()))
        images = zip(*(t.to(x.dtype).transpose(0, 1)[None].split(sizes, 2) for t in (q, k, v)), strict=True)
        o = torch.cat([F.scaled_dot_product_attention(*image) for image in images], 2)
        return x + out(o[0].transpose(0, 1).flatten(1))

    return run, (drawn(device, 6444, 1280), drawn(device, 96, 20, dtype=FLOAT), numbers(device, 96, 6444, 2))


@fifth
def sink_attention(device: str) -> Made:
    """GPT-OSS's, written out: a learned logit of each head in the softmax, a window of 128 keys."""
    to_q, to_k, to_v = (module(lambda wide=wide: nn.Linear(2880, wide), device) for wide in (4096, 512, 512))
    out, sinks = module(lambda: nn.Linear(4096, 2880), device), drawn(device, 64)

    def run(x: Tensor) -> Tensor:
        q, k, v = split_heads(to_q(x), 64), split_heads(to_k(x), 8), split_heads(to_v(x), 8)
        k, v = (t.repeat_interleave(8, 1) for t in (k, v))
        place = torch.arange(x.shape[1], device=x.device)
        apart = place[:, None] - place
        scores = (q @ k.mT * 0.125).masked_fill((apart < 0) | (apart >= 128), float("-inf"))
        scores = torch.cat((scores, sinks[:, None, None].expand(x.shape[0], -1, x.shape[1], 1)), -1)
        scores = scores - scores.amax(-1, keepdim=True)
        o = scores.softmax(-1)[..., :-1] @ v
        return out(o.transpose(1, 2).flatten(2))

    return run, (drawn(device, 2, 1000, 2880),)


@fifth
def clamped_experts(device: str) -> Made:
    """GPT-OSS 20B's 32 experts, all on 96 tokens: gates and ups by turns, clamped; shares from the router."""
    wide, narrow = drawn(device, 32, 2880, 5760), drawn(device, 32, 2880, 2880)
    wide_bias, narrow_bias = drawn(device, 32, 1, 5760), drawn(device, 32, 1, 2880)

    def run(x: Tensor, shares: Tensor) -> Tensor:
        both = torch.bmm(x.repeat(32, 1).view(32, -1, 2880), wide) + wide_bias
        gate, up = both[..., ::2].clamp(max=7.0), both[..., 1::2].clamp(-7.0, 7.0)
        h = (up + 1) * gate * torch.sigmoid(gate * 1.702)
        return ((torch.bmm(h, narrow) + narrow_bias) * shares.T[..., None]).sum(0)

    return run, (drawn(device, 96, 2880), drawn(device, 96, 32))


@fifth
def dynamic_tanh_block(device: str) -> Made:
    """DyT: a block of ViT-B with a scaled tanh where norms were."""
    attention = module(lambda: Attention(768, 12), device)
    mlp = module(lambda: nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768)), device)
    scales, weights, shifts = drawn(device, 2, 1), drawn(device, 2, 768), drawn(device, 2, 768)

    def run(x: Tensor) -> Tensor:
        x = x + attention(torch.tanh(scales[0] * x) * weights[0] + shifts[0])
        return x + mlp(torch.tanh(scales[1] * x) * weights[1] + shifts[1])

    return run, (drawn(device, 96, 197, 768),)


@fifth
def two_bit_cache(device: str) -> Made:
    """KIVI: keys to two bits by channel, in groups of 32 tokens, 16 in an integer; back, and asked by a token; fp16."""

    def run(q: Tensor, keys: Tensor, shifts: Tensor) -> tuple[Tensor, Tensor]:
        groups = keys.mT.unflatten(-1, (-1, 32))
        low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
        scale = (high - low) / 3
        codes = ((groups - low) / scale).clamp(0, 3).round().to(torch.int32)
        packed = (codes.flatten(-2).unflatten(-1, (-1, 16)) << shifts).sum(-1, dtype=torch.int32)
        again = ((packed[..., None] >> shifts) & 3).flatten(-2).unflatten(-1, (-1, 32)).to(keys.dtype)
        return packed, q @ (again * scale + low).flatten(-2)

    shifts = torch.arange(0, 32, 2, device=device, dtype=torch.int32)
    return run, (*(drawn(device, 8, 8, size, 128, dtype=torch.float16) for size in (4, 4096)), shifts)


@fifth
def hstu_layer(device: str) -> Made:
    """HSTU of Meta's recommender: SiLU for softmax, biases looked up by distance and by time between events."""
    norms = [module(lambda: nn.LayerNorm(512), device) for _ in range(2)]
    inward, out = module(lambda: nn.Linear(512, 2048), device), module(lambda: nn.Linear(512, 512), device)

    def run(x: Tensor, times: Tensor, by_place: Tensor, by_time: Tensor) -> Tensor:
        u, v, q, k = F.silu(inward(norms[0](x))).chunk(4, -1)
        q, k, v = (split_heads(t, 8) for t in (q, k, v))
        place = torch.arange(x.shape[1], device=x.device)
        apart = (times[:, :, None] - times[:, None]).abs().clamp(min=1).log() / 0.301
        bias = by_place[place[:, None] - place + 511] + by_time[apart.clamp(0, 128).long()]
        scores = F.silu(q @ k.mT + bias[:, None]) / 512 * (place[:, None] >= place)
        return x + out(u * norms[1]((scores @ v).transpose(1, 2).flatten(2)))

    given = (numbers(device, 100_000_000, 24, 512), drawn(device, 1023), drawn(device, 129))
    return run, (drawn(device, 24, 512, 512), *given)


@fifth
def quotient_remainder_tables(device: str) -> Made:
    """DLRM's small tables: 26 features by quotient and by remainder, multiplied, and a product; float32."""
    first = module(lambda: nn.Linear(26 * 64, 512), device, FLOAT)

    def run(ids: Tensor, large: Tensor, small: Tensor) -> Tensor:
        feature = torch.arange(26, device=ids.device)
        rows = large[ids // 16 + feature * 50_000] * small[ids % 16 + feature * 16]
        return F.relu(first(rows.flatten(1)))

    tables = (drawn(device, 26 * 50_000, 64, dtype=FLOAT), drawn(device, 26 * 16, 64, dtype=FLOAT))
    return run, (numbers(device, 800_000, 12288, 26), *tables)


@fifth
def late_interaction(device: str) -> Made:
    """ColBERT: four queries of 32 tokens, the best of up to 300 tokens of each of 2,000 documents, added up."""

    def run(queries: Tensor, documents: Tensor, sizes: Tensor) -> Tensor:
        scores = torch.einsum("qsd,ntd->qnst", F.normalize(queries, dim=-1), documents)
        beyond = torch.arange(documents.shape[1], device=sizes.device) >= sizes[:, None]
        return scores.masked_fill(beyond[:, None], -9999.0).amax(-1).sum(-1).topk(100, -1).values

    return run, (drawn(device, 4, 32, 128), drawn(device, 2000, 300, 128), numbers(device, 300, 2000))


@fifth
def penalized_sampling(device: str) -> Made:
    """VLLM's sampler: tokens counted and made less likely, min-p, the best 50 kept, one drawn for 64 sequences."""

    def run(logits: Tensor, prompt: Tensor, written: Tensor) -> Tensor:
        nothing = torch.zeros(logits.shape, dtype=torch.long, device=logits.device)
        before, counts = (nothing.scatter_add(1, ids, torch.ones_like(ids)) for ids in (prompt, written))
        logits = logits.float()
        often = torch.where((before > 0) | (counts > 0), 1.1, 1.0)
        logits = torch.where(logits > 0, logits / often, logits * often) - 0.2 * counts - 0.1 * (counts > 0)
        shares = (logits / 0.7).softmax(-1)
        logits = logits.masked_fill(shares < 0.05 * shares.amax(-1, keepdim=True), float("-inf"))
        logits = logits.masked_fill(logits < logits.topk(50, -1).values[:, -1:], float("-inf"))
        shares = logits.softmax(-1)
        return (shares / torch.empty_like(shares).exponential_()).argmax(-1)

    ids = [numbers(device, 151936, 64, size) for size in (2048, 768)]
    return run, (drawn(device, 64, 151936), *ids)


@fifth
def masked_diffusion_step(device: str) -> Made:
    """LLaDA: noise of float64 on logits, the likeliest tokens, the 16 surest of those still masked put in."""

    def run(logits: Tensor, ids: Tensor) -> Tensor:
        noise = (-torch.rand_like(logits, dtype=torch.float64).log()) ** 0.5
        best = (logits.double().exp() / noise).argmax(-1)
        sure = logits.softmax(-1).gather(-1, best[..., None])[..., 0]
        masked = ids == 126336
        best, sure = torch.where(masked, best, ids), torch.where(masked, sure, float("-inf"))
        places = sure.topk(16, -1).indices
        return ids.scatter(1, places, best.gather(1, places))

    return run, (drawn(device, 4, 128, 126464), numbers(device, 126464, 4, 128))


@fifth
def hyper_connections(device: str) -> Made:
    """DeepSeek's mHC: four residual streams, mixed by matrices that 20 rounds of Sinkhorn make doubly stochastic."""
    weight, to_maps, layer = drawn(device, 8192), drawn(device, 24, 8192), drawn(device, 2048, 2048)

    def run(streams: Tensor, shift: Tensor, gains: Tensor) -> Tensor:
        maps = F.linear(rms(streams.flatten(1), weight), to_maps).float() * gains + shift
        into, back, mix = maps.split((4, 4, 16), -1)
        mix = mix.unflatten(-1, (4, 4)).exp()
        for _ in range(20):
            mix = mix / (mix.sum(-1, keepdim=True) + 1e-6)
            mix = mix / (mix.sum(-2, keepdim=True) + 1e-6)
        x = (torch.sigmoid(into)[..., None].to(HALF) * streams).sum(1)
        y = F.linear(x, layer)[:, None] * (2 * torch.sigmoid(back))[..., None].to(HALF)
        return mix.to(HALF) @ streams + y

    return run, (drawn(device, 6000, 4, 2048), *(0.01 * drawn(device, 24, dtype=FLOAT) for _ in "sg"))


@fifth
def gated_short_convolution(device: str) -> Made:
    """LFM2's: a gate, three steps of each channel convolved, another gate, between two products."""
    inward, out = (module(lambda wide=wide: nn.Linear(2048, wide, bias=False), device) for wide in (6144, 2048))
    short = module(lambda: nn.Conv1d(2048, 2048, 3, padding=2, groups=2048, bias=False), device)

    def run(x: Tensor) -> Tensor:
        before, after, h = inward(x).mT.chunk(3, 1)
        return out((after * short(before * h)[..., : x.shape[1]]).mT.contiguous())

    return run, (drawn(device, 4, 2500, 2048),)


@fifth
def sparse_latent_attention(device: str) -> Made:
    """DeepSeek-V3.2: an indexer of 64 heads, its best 2,048 of 8,192 latents gathered for each of 192 queries."""

    def run(asks: Tensor, keys: Tensor, weights: Tensor, q: Tensor, latents: Tensor) -> Tensor:
        scores = (torch.einsum("shd,td->sht", asks, keys).relu() * weights[..., None]).sum(1, dtype=FLOAT)
        taken = latents[scores.topk(2048, -1).indices]
        shares = (q @ taken.mT * 192**-0.5).softmax(-1, dtype=FLOAT).to(q.dtype)
        return shares @ taken[..., :512]

    shapes = ((192, 64, 128), (8192, 128), (192, 64), (192, 128, 576), (8192, 576))
    return run, tuple(drawn(device, *shape) for shape in shapes)
