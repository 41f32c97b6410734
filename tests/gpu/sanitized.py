"""Twenty shapes of every schedule, each once, for `compute-sanitizer` to watch."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from gpu.grid import points, schedules
from gpu.test_kernels import DEVICE, launched

SHAPES = 20


def main() -> None:
    """Run them; the sanitizer's exit code is the verdict."""
    for schedule in schedules():
        chosen = list(points(schedule, "fp16", DEVICE))
        for point in chosen[:: max(1, len(chosen) // SHAPES)][:SHAPES]:
            launched(point)
    torch.cuda.synchronize()
    print(f"ran {SHAPES} shapes of {', '.join(schedules())}")


if __name__ == "__main__":
    main()
