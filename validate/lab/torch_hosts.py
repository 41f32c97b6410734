"""What a host takes to enqueue operations of torch: `python validate/lab/torch_hosts.py FILE.json`, on a GPU.

Tensors are small, so that the GPU never holds up the host. Times are medians of 7 rounds [us]: of an operation, of a
module's call, and of a compiled function by how many kernels it launches.
"""

import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

CALLS, ROUNDS = 100, 7
MANY = (1, 4, 16, 48)


def enqueued_us(run: Callable[[], Any]) -> float:
    """Of one call."""
    times = []
    for _ in range(ROUNDS + 1):
        torch.cuda.synchronize()
        begin = perf_counter()
        for _ in range(CALLS):
            run()
        times.append((perf_counter() - begin) / CALLS * 1e6)
        torch.cuda.synchronize()
    return median(times[1:])


def split(count: int) -> Callable[..., Any]:
    """A function of which torch.compile makes so many kernels: a product between each two."""

    def run(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        for _ in range((count + 1) // 2):
            x = torch.relu(x @ weight)
        return x

    return run


def main() -> None:
    x, weight = (torch.randn(64, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    linear, norm = nn.Linear(64, 64).to(x.device, x.dtype), nn.LayerNorm(64).to(x.device, x.dtype)
    block = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(8))).to(x.device, x.dtype)
    made: dict[str, float] = {}
    with torch.no_grad():
        for name, run in {
            "relu": lambda: torch.relu(x),
            "add": lambda: x + weight,
            "mul scalar": lambda: x * 2.0,
            "mm": lambda: x @ weight,
            "F.linear": lambda: F.linear(x, linear.weight, linear.bias),
            "nn.Linear": lambda: linear(x),
            "nn.LayerNorm": lambda: norm(x),
            "softmax": lambda: x.softmax(-1),
            "transpose, contiguous": lambda: x.t().contiguous(),
            "to float": lambda: x.float(),
            "cat": lambda: torch.cat((x, weight), -1),
            "8 x (nn.Linear, nn.ReLU) in nn.Sequential": lambda: block(x),
        }.items():
            made[name] = enqueued_us(run)
        for count in MANY:
            torch._dynamo.reset()
            compiled = torch.compile(split(count))
            made[f"compiled, {2 * ((count + 1) // 2)} kernels"] = enqueued_us(lambda: compiled(x, weight))  # noqa: B023
    leaf = x.clone().requires_grad_()
    made["forward, relu with gradients"] = enqueued_us(lambda: torch.relu(leaf))
    made["backward of 16 relu"] = enqueued_us(lambda: deep(leaf).backward(x)) - enqueued_us(lambda: deep(leaf))
    made |= {"host": f"{platform.processor()} {cpu()}", "torch": str(torch.__version__)}  # type: ignore[dict-item]
    Path(sys.argv[1]).write_text(json.dumps(made, indent=1))


def deep(x: torch.Tensor) -> torch.Tensor:
    for _ in range(16):
        x = torch.relu(x)
    return x


def cpu() -> str:
    """The processor's name, as Linux has it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "unknown")


if __name__ == "__main__":
    main()
