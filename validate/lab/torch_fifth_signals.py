"""Functions of the fifth set (`torch_fifth`) on images, sound, volumes, graphs and physics."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_fifth import fifth
from torch_parts import FLOAT, Made, convolved, drawn, module, numbers, split_heads

SINGLE = torch.float16


@fifth
def feature_pyramid(device: str) -> Made:
    """Detectron2's FPN: four planes brought to 256 channels, coarse ones added to fine ones, smoothed."""
    widths = (256, 512, 1024, 2048)
    sides = [module(lambda wide=wide: nn.Conv2d(wide, 256, 1), device) for wide in widths]
    smooth = [module(lambda: nn.Conv2d(256, 256, 3, padding=1), device) for _ in widths]

    def run(*planes: Tensor) -> list[Tensor]:
        x, made = sides[3](planes[3]), []
        for level in (2, 1, 0):
            made.append(smooth[level + 1](x))
            x = sides[level](planes[level]) + F.interpolate(x, scale_factor=2.0, mode="nearest")
        return [*made, smooth[0](x), F.max_pool2d(made[0], 1, 2)]

    return run, tuple(drawn(device, 2, wide, 200 >> level, 304 >> level) for level, wide in enumerate(widths))


@fifth
def regnet_block(device: str) -> Made:
    """RegNetY-16GF's: convolutions in groups of 112 channels, squeezed and excited; channels last."""
    shapes = ((1,), (3, 1, 11), (1,))
    parts = [module(lambda shape=shape: convolved(1232, 1232, *shape), device).train(False) for shape in shapes]
    parts = [part.to(memory_format=torch.channels_last) for part in parts]
    squeeze, excite = (module(lambda s=s: nn.Conv2d(*s, 1), device) for s in ((1232, 308), (308, 1232)))

    def run(x: Tensor) -> Tensor:
        h = F.relu(parts[1](F.relu(parts[0](x))))
        h = h * torch.sigmoid(excite(F.relu(squeeze(F.adaptive_avg_pool2d(h, 1)))))
        return F.relu(x + parts[2](h))

    return run, (drawn(device, 96, 1232, 14, 14).to(memory_format=torch.channels_last),)


@fifth
def flow_correlation(device: str) -> Made:
    """RAFT: all pairs of pixels of two images, halved three times, 9 x 9 neighbours looked up in each; float32."""
    shift = torch.stack(torch.meshgrid(*[torch.arange(-4.0, 5.0, device=device)] * 2, indexing="ij"), -1)

    def run(first: Tensor, second: Tensor, places: Tensor) -> Tensor:
        volume = (first.flatten(2).mT @ second.flatten(2) / 16).flatten(0, 1).unflatten(-1, (1, 46, 96))
        spots, taken = places.permute(0, 2, 3, 1).reshape(-1, 1, 1, 2), []
        for level in range(4):
            across, down = (spots / 2**level + shift).unbind(-1)
            at = (2 * across / (volume.shape[-1] - 1) - 1, 2 * down / (volume.shape[-2] - 1) - 1)
            taken.append(F.grid_sample(volume, torch.stack(at, -1), align_corners=True).flatten(1))
            volume = F.avg_pool2d(volume, 2)
        return torch.cat(taken, -1).view(2, 46, 96, -1).permute(0, 3, 1, 2).contiguous()

    given = [drawn(device, 2, 256, 46, 96, dtype=FLOAT) for _ in "ab"]
    return run, (*given, torch.rand(2, 2, 46, 96, device=device) * 46)


@fifth
def structural_similarity(device: str) -> Made:
    """SSIM as a loss: means and deviations under a Gaussian of 11 pixels, row by row and column by column; float32."""

    def run(x: Tensor, y: Tensor, window: Tensor) -> Tensor:
        def blurred(image: Tensor) -> Tensor:
            return F.conv2d(F.conv2d(image, window, groups=3), window.mT, groups=3)

        a, b = blurred(x), blurred(y)
        aa, bb, ab = blurred(x * x) - a * a, blurred(y * y) - b * b, blurred(x * y) - a * b
        alike = (2 * a * b + 1e-4) / (a * a + b * b + 1e-4) * (2 * ab + 9e-4) / (aa + bb + 9e-4)
        return 1 - F.relu(alike.flatten(2).mean(-1)).mean()

    return run, (*(drawn(device, 8, 3, 512, 512, dtype=FLOAT) for _ in "xy"), drawn(device, 3, 1, 11, 1, dtype=FLOAT))


@fifth
def equivariant_product(device: str) -> Made:
    """MACE: vectors of atoms times spherical harmonics of bonds, by weights of their length, added up; float32."""
    radial = [module(lambda s=s: nn.Linear(*s, bias=False), device, FLOAT) for s in ((8, 64), (64, 64), (64, 128))]
    mix = drawn(device, 4, 9, 9, dtype=FLOAT)

    def run(x: Tensor, source: Tensor, target: Tensor, lengths: Tensor, harmonics: Tensor) -> Tensor:
        weights = radial[2](F.silu(radial[1](F.silu(radial[0](lengths)))))
        turns = torch.einsum("ej,ijk->eik", harmonics, mix)
        messages = torch.bmm(x[source] * weights[..., None], turns)
        return x.new_zeros(x.shape[0], 128, 9).index_add(0, target, messages) / 12

    edges = [numbers(device, 4000, 60_000) for _ in "st"]
    of_edges = [drawn(device, 60_000, wide, dtype=FLOAT) for wide in (8, 9)]
    return run, (drawn(device, 4000, 128, 4, dtype=FLOAT), *edges, *of_edges)


@fifth
def hash_grid(device: str) -> Made:
    """Nerfstudio's Instant-NGP encoding: 16 grids, hashed corners of a cell of each, weighed; float32."""
    primes = torch.tensor([1, 2654435761, 805459861], device=device)
    scales = 16 * 1.38 ** torch.arange(16.0, device=device)[:, None]

    def run(points: Tensor, table: Tensor) -> Tensor:
        scaled = points[:, None] * scales
        low, high = scaled.floor(), scaled.ceil()
        part = scaled - low
        starts, taken = torch.arange(16, device=points.device) * 2**19, []
        for corner in range(8):
            cell = torch.stack([(low, high)[corner >> axis & 1][..., axis] for axis in range(3)], -1).int() * primes
            taken.append(table[(cell[..., 0] ^ cell[..., 1] ^ cell[..., 2]) % 2**19 + starts])
        for axis in range(3):
            along = part[..., axis, None]
            taken = [a * (1 - along) + b * along for a, b in zip(taken[::2], taken[1::2], strict=True)]
        return taken[0].flatten(1)

    return run, (torch.rand(131_072, 3, device=device), drawn(device, 16 * 2**19, 2, dtype=FLOAT))


@fifth
def depth_fusion(device: str) -> Made:
    """Depth Anything's head: a finer plane joined to a coarser, made larger twice, one number for each pixel."""
    three = [module(lambda: nn.Conv2d(256, 256, 3, padding=1), device) for _ in range(4)]
    mix = module(lambda: nn.Conv2d(256, 256, 1), device)
    half = module(lambda: nn.Conv2d(256, 128, 3, padding=1), device)
    last = module(lambda: nn.Sequential(nn.Conv2d(128, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, 1, 1)), device)

    def run(coarse: Tensor, fine: Tensor) -> Tensor:
        x = coarse + three[1](F.relu(three[0](F.relu(fine)))) + fine
        x = x + three[3](F.relu(three[2](F.relu(x))))
        x = mix(F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True))
        x = F.interpolate(half(x), (518, 518), mode="bilinear", align_corners=True)
        return F.relu(last(x))[:, 0]

    return run, tuple(drawn(device, 4, 256, 148, 148) for _ in "cf")


@fifth
def matching_cost(device: str) -> Made:
    """DINO-DETR's costs of 16 x 900 boxes against 400 true ones: class, distance, generalised overlap; float32."""

    def run(logits: Tensor, boxes: Tensor, kinds: Tensor, truth: Tensor) -> Tensor:
        sure = torch.sigmoid(logits.flatten(0, 1))
        no = 0.75 * sure**2 * -(1 - sure + 1e-8).log()
        yes = 0.25 * (1 - sure) ** 2 * -(sure + 1e-8).log()
        boxes = boxes.flatten(0, 1)
        far = torch.cdist(boxes, truth, p=1)
        (a, b), (c, d) = ((t[:, :2] - t[:, 2:] / 2, t[:, :2] + t[:, 2:] / 2) for t in (boxes, truth))
        common = (torch.minimum(b[:, None], d) - torch.maximum(a[:, None], c)).clamp(min=0).prod(-1)
        both = (b - a).prod(-1)[:, None] + (d - c).prod(-1) - common
        hull = (torch.maximum(b[:, None], d) - torch.minimum(a[:, None], c)).clamp(min=0).prod(-1)
        overlap = common / both - (hull - both) / hull
        return (5 * far + 2 * (yes - no)[:, kinds] - 2 * overlap).view(16, 900, -1)

    given = (drawn(device, 16, 900, 91, dtype=FLOAT), torch.rand(16, 900, 4, device=device))
    return run, (*given, numbers(device, 91, 400), torch.rand(400, 4, device=device))


@fifth
def inverse_spectrum(device: str) -> Made:
    """Vocos's end: sizes and phases of 513 tones from a product, transformed back, frames overlapped; float32."""
    out = module(lambda: nn.Linear(512, 1026), device, FLOAT)

    def run(x: Tensor, window: Tensor) -> Tensor:
        size, phase = out(x).mT.chunk(2, 1)
        size = size.exp().clamp(max=100.0)
        frames = torch.fft.irfft(size * torch.complex(phase.cos(), phase.sin()), 1024, 1, "backward") * window[:, None]
        wide = (1, 1024 + 256 * (x.shape[1] - 1))
        sound = F.fold(frames, wide, (1, 1024), stride=(1, 256))[:, 0, 0]
        squares = window.square()[None, :, None].expand(1, -1, x.shape[1])
        return (sound / (F.fold(squares, wide, (1, 1024), stride=(1, 256))[:, 0, 0] + 1e-11))[:, 384:-384]

    return run, (drawn(device, 24, 800, 512, dtype=FLOAT), torch.hann_window(1024, device=device))


@fifth
def residual_codes(device: str) -> Made:
    """EnCodec: the nearest of 1,024 codes, what it leaves to the next of eight codebooks; float32."""

    def run(x: Tensor, books: Tensor) -> tuple[Tensor, Tensor]:
        left, chosen = x.mT.flatten(0, 1), []
        total = torch.zeros_like(left)
        for book in books.unbind():
            far = left.pow(2).sum(1, keepdim=True) - 2 * left @ book.T + book.pow(2).sum(1)
            chosen.append((-far).max(-1).indices)
            near = F.embedding(chosen[-1], book)
            left, total = left - near, total + near
        return torch.stack(chosen), total.view(x.shape[0], -1, 128).mT

    return run, (drawn(device, 32, 128, 750, dtype=FLOAT), drawn(device, 8, 1024, 128, dtype=FLOAT))


@fifth
def mesh_messages(device: str) -> Made:
    """GraphCast's: an MLP of 160,000 edges with both ends, added up at 20,000 nodes, an MLP of these."""

    def mlp(parts: int) -> nn.Module:
        return nn.Sequential(nn.Linear(parts * 512, 512), nn.SiLU(), nn.Linear(512, 512), nn.LayerNorm(512))

    of_edges, of_nodes = (module(lambda parts=parts: mlp(parts), device) for parts in (3, 2))

    def run(nodes: Tensor, edges: Tensor, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        messages = of_edges(torch.cat((edges, nodes[source], nodes[target]), -1))
        got = torch.zeros_like(nodes).index_add(0, target, messages)
        return nodes + of_nodes(torch.cat((nodes, got), -1)), edges + messages

    ends = [numbers(device, 20_000, 160_000) for _ in "st"]
    return run, (drawn(device, 20_000, 512), drawn(device, 160_000, 512), *ends)


@fifth
def fourier_layer(device: str) -> Made:
    """FNO: products of the lowest 32 x 32 waves of 64 channels, and a convolution beside them; float32."""
    beside = module(lambda: nn.Conv2d(64, 64, 1), device, FLOAT)
    low, high = (drawn(device, 64, 64, 32, 32, dtype=torch.complex64) for _ in "lh")

    def run(x: Tensor) -> Tensor:
        waves = torch.fft.rfft2(x)
        made = torch.zeros_like(waves)
        made[:, :, :32, :32] = torch.einsum("bixy,ioxy->boxy", waves[:, :, :32, :32], low)
        made[:, :, -32:, :32] = torch.einsum("bixy,ioxy->boxy", waves[:, :, -32:, :32], high)
        return F.gelu(torch.fft.irfft2(made, x.shape[-2:]) + beside(x))

    return run, (drawn(device, 16, 64, 192, 192, dtype=FLOAT),)


@fifth
def pillar_scatter(device: str) -> Made:
    """PointPillars: 20 points of 36,000 pillars, the largest of each feature put on a plane, convolved; float32."""
    inward = module(lambda: nn.Linear(10, 64, bias=False), device, FLOAT)
    norm = module(lambda: nn.BatchNorm1d(64), device, FLOAT).train(False)
    plain = module(lambda: convolved(64, 64, 3, 2), device, FLOAT).train(False)

    def run(points: Tensor, counts: Tensor, places: Tensor) -> Tensor:
        inside = torch.arange(20, device=counts.device) < counts[:, None]
        h = inward(points * inside[..., None])
        h = F.relu(norm(h.mT).mT).amax(1)
        plane = h.new_zeros(64, 4 * 496 * 432)
        plane[:, places] = h.T
        return F.relu(plain(plane.view(64, 4, 496, 432).transpose(0, 1)))

    given = (drawn(device, 36_000, 20, 10, dtype=FLOAT), numbers(device, 21, 36_000))
    return run, (*given, numbers(device, 4 * 496 * 432, 36_000))


@fifth
def dense_residual(device: str) -> Made:
    """Real-ESRGAN's: five convolutions, each of what all before it made; fp16."""
    shapes = ((64, 32), (96, 32), (128, 32), (160, 32), (192, 64))
    layers = [module(lambda shape=shape: nn.Conv2d(*shape, 3, padding=1), device, SINGLE) for shape in shapes]

    def run(x: Tensor) -> Tensor:
        made = [x]
        for layer in layers[:4]:
            made.append(F.leaky_relu(layer(torch.cat(made, 1)), 0.2))
        return layers[4](torch.cat(made, 1)) * 0.2 + x

    return run, (drawn(device, 4, 64, 180, 256, dtype=SINGLE),)


@fifth
def causal_video_block(device: str) -> Made:
    """Wan 2.1's video decoder: norms over channels, convolutions that see no later frame."""
    layers = [module(lambda: nn.Conv3d(192, 192, 3), device) for _ in range(2)]
    gains = drawn(device, 2, 192, 1, 1, 1)

    def run(x: Tensor) -> Tensor:
        h = x
        for layer, gain in zip(layers, gains, strict=True):
            h = F.silu(F.normalize(h, dim=1) * 192**0.5 * gain)
            h = layer(F.pad(h, (1, 1, 1, 1, 2, 0)))
        return x + h

    return run, (drawn(device, 1, 192, 5, 90, 160),)


@fifth
def modulated_convolution(device: str) -> Made:
    """StyleGAN2's: weights of each image scaled by its style, twice the size, blurred, noise; fp16."""
    to_style = module(lambda: nn.Linear(512, 256), device, SINGLE)
    weight, bias = drawn(device, 1, 256, 128, 3, 3, dtype=SINGLE), drawn(device, 128, 1, 1, dtype=SINGLE)

    def run(x: Tensor, style: Tensor, blur: Tensor, noise: Tensor) -> Tensor:
        scaled = weight * to_style(style)[:, :, None, None, None]
        scaled = scaled * torch.rsqrt(scaled.float().pow(2).sum((1, 3, 4), keepdim=True) + 1e-8).to(x.dtype)
        h = F.conv_transpose2d(x.view(1, -1, *x.shape[2:]), scaled.flatten(0, 1), stride=2, groups=x.shape[0])
        h = F.conv2d(F.pad(h.view(x.shape[0], 128, *h.shape[2:]), (1, 1, 1, 1)), blur, groups=128)
        return F.leaky_relu(h + noise + bias, 0.2) * 2**0.5

    shapes = ((8, 256, 64, 64), (8, 512), (128, 1, 4, 4), (8, 1, 128, 128))
    return run, tuple(drawn(device, *shape, dtype=SINGLE) for shape in shapes)


@fifth
def sana_block(device: str) -> Made:
    """Sana 1.6B's: attention by ReLU without a softmax, then an MLP with a convolution of 3 x 3 inside."""
    qkv, out = (module(lambda wide=wide: nn.Linear(2240, wide), device) for wide in (6720, 2240))
    wide, narrow = (module(lambda s=s: nn.Conv2d(*s, 1), device) for s in ((2240, 11200), (5600, 2240)))
    deep = module(lambda: nn.Conv2d(11200, 11200, 3, padding=1, groups=11200), device)

    def run(x: Tensor) -> Tensor:
        q, k, v = (split_heads(part, 70) for part in qkv(F.layer_norm(x, (2240,))).chunk(3, -1))
        sums = F.pad(v.float(), (0, 1), value=1.0).mT @ F.relu(k).float()
        o = sums @ F.relu(q).float().mT
        x = x + out((o[:, :, :-1] / (o[:, :, -1:] + 1e-15)).to(x.dtype).flatten(1, 2).mT)
        h, gate = deep(F.silu(wide(F.layer_norm(x, (2240,)).mT.unflatten(-1, (32, 32))))).chunk(2, 1)
        return x + narrow(h * F.silu(gate)).flatten(2).mT

    return run, (drawn(device, 4, 1024, 2240),)


@fifth
def token_merging(device: str) -> Made:
    """ToMe: the 16 tokens of each image most like another of every second one, averaged into it."""

    def run(x: Tensor, keys: Tensor) -> Tensor:
        keys = keys / keys.norm(dim=-1, keepdim=True)
        best, which = (keys[:, ::2] @ keys[:, 1::2].mT).max(-1)
        order = best.argsort(-1, descending=True)[..., None]
        going, staying = order[:, :16], order[:, 16:].sort(1).values
        into = which[..., None].gather(1, going)
        even, odd = x[:, ::2], x[:, 1::2]
        moved, kept = (even.gather(1, rows.expand(-1, -1, x.shape[-1])) for rows in (going, staying))
        return torch.cat((kept, odd.scatter_reduce(1, into.expand_as(moved), moved, "mean")), 1)

    return run, (drawn(device, 64, 197, 1024), drawn(device, 64, 197, 64))
