"""How long products and convolutions take with the values that they multiply: random, half zeros (ReLU), all zeros.

    python validate/data_power.py FILE.jsonl

On a GPU, bf16. A GPU at its power limit lowers its clock, and zeros cost less power. `burst_us`: the median of single
runs with pauses between them; `steady_us`: of runs back to back for `STEADY_S` [us].
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch.nn.functional import conv2d

STEADY_S = 0.4
PAUSE_S = 0.004
BURSTS = 20
DATA: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "random": lambda x: x,
    "ReLU": torch.relu,
    "zeros": torch.zeros_like,
}
PRODUCTS = ((8192, 8192, 8192), (4096, 4096, 14336), (2048, 8192, 2048))
CONVOLUTIONS = (
    (64, 256, 56, 256, 3),
    (32, 256, 64, 256, 3),
    (32, 128, 112, 128, 3),
    (64, 512, 28, 512, 3),
    (64, 256, 56, 1024, 1),
)
"""Images, channels, height and width, channels of the result, size of the window."""


def elapsed_us(work: Callable[[], object], runs: int) -> float:
    """Of a run, of so many back to back [us]."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(runs):
        work()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) * 1e3 / runs


def timed(work: Callable[[], object]) -> dict[str, float]:
    """Both times of a piece of work."""
    work()
    alone_us = elapsed_us(work, 3)
    bursts = []
    for _ in range(BURSTS):
        time.sleep(PAUSE_S)
        bursts.append(elapsed_us(work, 1))
    runs = int(STEADY_S * 1e6 / alone_us)
    elapsed_us(work, runs)
    return {"burst_us": median(bursts), "steady_us": elapsed_us(work, runs)}


def works() -> dict[str, tuple[torch.Tensor, Callable[[torch.Tensor], object]]]:
    """Name -> first operand, and what is done with it."""
    given: dict[str, tuple[torch.Tensor, Callable[[torch.Tensor], object]]] = {}
    options = {"device": "cuda", "dtype": torch.bfloat16}
    for m, n, k in PRODUCTS:
        weights = torch.randn(k, n, **options)
        given[f"product {m}x{n}x{k}"] = torch.randn(m, k, **options), lambda x, w=weights: x @ w
    for images, channels, size, filters, window in CONVOLUTIONS:
        x = torch.randn(images, channels, size, size, **options).to(memory_format=torch.channels_last)
        kernel = torch.randn(filters, channels, window, window, **options).to(memory_format=torch.channels_last)
        name = f"convolution {images}x{channels}x{size}x{size} to {filters}, window {window}"
        given[name] = x, lambda x, w=kernel, pad=window // 2: conv2d(x, w, padding=pad)
    return given


def main(file: Path) -> None:
    """A line for each piece of work and kind of data."""
    with file.open("w", encoding="utf-8") as lines:
        for name, (operand, work) in works().items():
            for kind, change in DATA.items():
                values = change(operand)
                entry = {"work": name, "data": kind, **timed(lambda values=values, work=work: work(values))}
                entry["gpu"] = torch.cuda.get_device_name()
                print(json.dumps(entry), flush=True)
                lines.write(json.dumps(entry) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
