"""Functions of the fourth set (`torch_fourth`) on images, volumes and sound."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_blocks import split_heads
from torch_cases import drawn, module, numbers
from torch_fourth import FLOAT, fourth
from torch_second import Made


@fourth
def dice_loss(device: str) -> Made:
    """nnU-Net's overlap of four classes in volumes, from softmax in float32."""

    def run(logits: Tensor, truth: Tensor) -> Tensor:
        shares = logits.softmax(1)
        wanted = torch.zeros_like(shares).scatter_(1, truth, 1.0)
        common = (shares * wanted).sum((2, 3, 4))
        both = shares.sum((2, 3, 4)) + wanted.sum((2, 3, 4))
        return 1 - ((2 * common + 1e-5) / (both + 1e-5)).mean()

    return run, (drawn(device, 2, 4, 96, 160, 160, dtype=FLOAT), numbers(device, 4, 2, 1, 96, 160, 160))


@fourth
def mask_upscaling(device: str) -> Made:
    """Segment Anything's end: an image of 64 x 64 made four times as wide, asked by four tokens of 16 prompts."""
    first = module(lambda: nn.ConvTranspose2d(256, 64, 2, 2), device)
    second = module(lambda: nn.ConvTranspose2d(64, 32, 2, 2), device)
    weight, bias = drawn(device, 64, 1, 1), drawn(device, 64, 1, 1)
    mlp = [module(lambda wide=wide: nn.Linear(256, wide), device) for wide in (256, 256, 32)]

    def run(image: Tensor, tokens: Tensor) -> Tensor:
        x = first(image)
        x = x - x.mean(1, keepdim=True)
        x = weight * (x / torch.sqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)) + bias
        x = F.gelu(second(F.gelu(x)))
        asked = mlp[2](F.relu(mlp[1](F.relu(mlp[0](tokens)))))
        return (asked @ x.flatten(2)).unflatten(-1, x.shape[2:])

    return run, (drawn(device, 16, 256, 64, 64), drawn(device, 16, 4, 256))


@fourth
def vocoder_stage(device: str) -> Made:
    """HiFi-GAN: frames made eight times as dense, then three pairs of convolutions that spread; float32."""
    denser = module(lambda: nn.ConvTranspose1d(256, 128, 16, 8, 4), device, FLOAT)
    spread = [
        module(lambda far=far: nn.Conv1d(128, 128, 7, padding=3 * far, dilation=far), device, FLOAT)
        for far in (1, 1, 3, 1, 5, 1)
    ]

    def run(x: Tensor) -> Tensor:
        x = denser(F.leaky_relu(x, 0.1))
        for wide, close in zip(spread[::2], spread[1::2], strict=True):
            x = x + close(F.leaky_relu(wide(F.leaky_relu(x, 0.1)), 0.1))
        return x

    return run, (drawn(device, 16, 256, 750, dtype=FLOAT),)


@fourth
def conformer_convolution(device: str) -> Made:
    """A gated product, a convolution over 31 frames of each channel, batch norm, SiLU, a product back."""

    def made() -> nn.Module:
        parts = [nn.Conv1d(512, 1024, 1), nn.GLU(1), nn.Conv1d(512, 512, 31, padding=15, groups=512)]
        return nn.Sequential(*parts, nn.BatchNorm1d(512), nn.SiLU(), nn.Conv1d(512, 512, 1)).eval()

    norm, layers = module(lambda: nn.LayerNorm(512), device), module(made, device)
    return (lambda x: x + layers(norm(x).mT).mT), (drawn(device, 32, 749, 512),)


@fourth
def deformable_attention(device: str) -> Made:
    """Deformable DETR's encoder: 8,500 queries look at four points of four planes; float32."""
    value, shift, share, out = (
        module(lambda wide=wide: nn.Linear(256, wide), device, FLOAT) for wide in (256, 256, 128, 256)
    )
    sides = (80, 40, 20, 10)

    def run(x: Tensor, places: Tensor) -> Tensor:
        planes = value(x).unflatten(-1, (8, 32)).split([side * side for side in sides], 1)
        offsets = split_heads(shift(x), 8).unflatten(-1, (4, 4, 2))
        taken = []
        for level, side in enumerate(sides):
            plane = planes[level].permute(0, 2, 3, 1).reshape(-1, 32, side, side)
            spots = 2 * (places[:, None, :, None] + offsets[..., level, :, :] / side) - 1
            taken.append(F.grid_sample(plane, spots.flatten(0, 1), align_corners=False))
        shares = split_heads(share(x), 8).softmax(-1).flatten(0, 1)
        seen = (torch.cat(taken, -1) * shares[:, None]).sum(-1)
        return out(seen.view(x.shape[0], 256, -1).mT)

    return run, (drawn(device, 2, 8500, 256, dtype=FLOAT), torch.rand(2, 8500, 2, device=device))


@fourth
def log_mel(device: str) -> Made:
    """Whisper's features: 16 times 30 s of sound to 128 bands of their spectrum; float32."""

    def run(sound: Tensor, window: Tensor, bands: Tensor) -> Tensor:
        power = torch.stft(sound, 400, 160, window=window, return_complex=True)[..., :-1].abs().square()
        loud = (bands @ power).clamp(min=1e-10).log10()
        return (torch.maximum(loud, loud.amax((1, 2), keepdim=True) - 8.0) + 4.0) / 4.0

    window = torch.hann_window(400, device=device)
    return run, (drawn(device, 16, 480000, dtype=FLOAT), window, drawn(device, 128, 201, dtype=FLOAT))


@fourth
def detection_decode(device: str) -> Made:
    """YOLOv8's: distances as means of 16 bins, boxes around 8,400 anchors, the 300 surest of each image; fp16."""

    def run(x: Tensor, bins: Tensor, anchors: Tensor, strides: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        sides, classes = x.split((64, 80), 1)
        apart = F.conv2d(sides.unflatten(1, (4, 16)).transpose(1, 2).softmax(1), bins)[:, 0]
        low, high = anchors - apart[:, :2], anchors + apart[:, 2:]
        boxes = torch.cat(((low + high) / 2, high - low), 1) * strides
        sure, kinds = torch.sigmoid(classes).max(1)
        best, which = sure.topk(300, -1)
        return boxes.gather(2, which[:, None].expand(-1, 4, -1)), best, kinds.gather(1, which)

    shapes = ((32, 144, 8400), (1, 16, 1, 1), (2, 8400), (8400,))
    return run, tuple(drawn(device, *shape, dtype=torch.float16) for shape in shapes)
