"""SM clock and power of steps that repeat on a GPU: `python validate/lab/step_clocks.py FILE`, a line of JSON for each.

Each step runs for `LOOP_S`, without a pause; what nvidia-smi reads in the second half counts. `first_us`, `last_us`: a
call right after a pause, and one at the end.
"""

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from two_gpus import drawn, kernel_of, local_inputs, train

LOOP_S, PAUSE_S = 2.4, 1.0
READ = ("nvidia-smi", "--query-gpu=clocks.sm,power.draw.instant", "--format=csv,noheader,nounits", "-lms", "20")


def attention(gradients: bool) -> Callable[[], Any]:
    """cuDNN's, causal, 4 x 24 heads of 4,096 x 128; with gradients: its backward pass as well."""
    q, k, v, o = (drawn(4, 24, 4096, 128).requires_grad_(gradients) for _ in "qkvo")

    def run() -> None:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            made = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if gradients:
            made.backward(o.detach())

    return run


def mixed(products: int, adds: int) -> Callable[[], Any]:
    """So many products of 4,096 cubed, and additions of 256 MiB."""
    product, add = kernel_of("product_4k"), kernel_of("add")
    return lambda: [run() for run in (*[product] * products, *[add] * adds)]


def step() -> Callable[[], Any]:
    """The training step of one GPU."""
    model, x = local_inputs()
    return lambda: train(model, x)


LOADS: dict[str, Callable[[], Callable[[], Any]]] = {
    "step": step,
    "product_4k": lambda: kernel_of("product_4k"),
    "product_8k": lambda: kernel_of("product_8k"),
    "product_wide": lambda: kernel_of("product_wide"),
    "attention": lambda: attention(False),
    "attention_backward": lambda: attention(True),
    "products_3_adds_1": lambda: mixed(3, 1),
    "products_1_adds_1": lambda: mixed(1, 1),
    "products_1_adds_3": lambda: mixed(1, 3),
    "add": lambda: kernel_of("add"),
}


def timed_us(run: Callable[[], Any]) -> float:
    """One call [us]."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in "be")
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


def measured(name: str) -> dict[str, Any]:
    """The row of a load."""
    run = LOADS[name]()
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    time.sleep(PAUSE_S)
    first = [timed_us(run) for _ in range(3)]
    read: list[tuple[float, float, float]] = []
    with subprocess.Popen(READ, stdout=subprocess.PIPE, text=True) as reader:

        def keep() -> None:
            for line in reader.stdout or ():
                clock, power = line.split(",")
                read.append((time.monotonic(), float(clock), float(power)))

        thread = threading.Thread(target=keep)
        thread.start()
        began, calls, last = time.monotonic(), 0, []
        while time.monotonic() < began + LOOP_S:
            last = [timed_us(run) for _ in range(8)]
            calls += 8
        reader.terminate()
        thread.join()
    kept = [row for row in read if began + LOOP_S / 2 < row[0] < began + LOOP_S]
    return {
        "name": name,
        "first_us": first,
        "last_us": statistics.median(last),
        "calls": calls,
        "clock_mhz": statistics.median(row[1] for row in kept),
        "power_w": statistics.median(row[2] for row in kept),
        "clocks_mhz": [row[1] for row in read][::4],
        "reads": len(kept),
    }


def main() -> None:
    """A line for each load."""
    with Path(sys.argv[1]).open("w", encoding="utf-8") as file:
        for name in LOADS:
            row = measured(name)
            file.write(json.dumps(row) + "\n")
            file.flush()
            print({key: value for key, value in row.items() if key != "clocks_mhz"}, flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
