"""Long causal attention over two GPUs by `docs/examples/context.py`: predicted, or measured and checked.

python validate/lab/context_run.py --predict FILE                      a line each, without a GPU
NCCL_NVLS_ENABLE=0 python validate/lab/context_run.py --measure FILE   the same on two GPUs
"""

import argparse
import importlib.util
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from two_gpus_run import interleaved, kernels_of, medians

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "context.py"
WAYS, LENGTHS = ("ring", "gather", "heads"), (4096, 8192, 32768, 131072)
LATE, WAIT_CYCLES = "late_ring", 40_000
"""The ring whose attention waits so long for NCCL's kernels."""
CHECKED = 4096
"""Tokens of the sequence whose results are held against attention of one GPU."""


def predicted() -> Iterator[dict[str, Any]]:
    """A row of each way and length: the step, kernels and collectives [us]."""
    import tilesight

    for length in LENGTHS:
        for way in WAYS:
            os.environ["TOKENS"] = str(length)
            profile = tilesight.profile(f"{EXAMPLE}:{way}", device="h200", gpus=2, queue="graph", l2="warm")
            yield {
                "name": f"{way}_{length}",
                "together_us": profile.step_s * 1e6,
                "communication_us": profile.queued.communication_s * 1e6,
                "exposed_us": profile.queued.exposed_s * 1e6,
                "complete": profile.complete,
            }


def checked(example: Any, way: str) -> float:
    """Largest difference from attention of one GPU."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    every = [torch.randn(1, example.HEADS, CHECKED, example.DIM, device="cuda", dtype=torch.bfloat16) for _ in "qkv"]
    mine = [example.shared_out(x, ranks)[rank] for x in every]
    right = example.shared_out(F.scaled_dot_product_attention(*every, is_causal=True), ranks)[rank]
    return float((getattr(example, way)(*mine).float() - right.float()).abs().max())


def late_ring(example: Any, *given: torch.Tensor) -> torch.Tensor:
    """The ring, but that NCCL's kernels find room before each attention, which waits for a moment."""
    before = example.attention

    def waited(*args: Any) -> Any:
        torch.cuda._sleep(WAIT_CYCLES)
        return before(*args)

    example.attention = waited
    try:
        return example.ring(*given)
    finally:
        example.attention = before


def work(rank: int, path: str) -> None:
    """One of two processes; the first writes."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29514", "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": "2"}
    torch.cuda.set_device(rank)
    spec = importlib.util.spec_from_file_location("context", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)

    def put(row: dict[str, Any]) -> None:
        if rank == 0:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps({key: value for key, value in row.items() if key not in ("all", "kernels")}), flush=True)

    example.inputs(CHECKED)
    put({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "nccl": str(torch.cuda.nccl.version())})
    for way in WAYS:
        put({"checked": way, "difference": checked(example, way)})
    for length in LENGTHS:
        given = example.inputs(length)
        runs = {way: partial(getattr(example, way), *given) for way in WAYS}
        runs[LATE] = partial(late_ring, example, *given)
        made = interleaved(runs, 4, 5)
        for way in runs:
            put({"name": f"{way}_{length}", "together_us": medians(made)[way], "all": made[way]})
        put({"name": f"kernels_{length}", "kernels": kernels_of(runs)})
    dist.destroy_process_group()


def main() -> None:
    """Predict or measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--predict")
    parser.add_argument("--measure")
    asked = parser.parse_args()
    if asked.measure:
        torch.multiprocessing.spawn(work, args=(asked.measure,), nprocs=2)
        return
    with Path(asked.predict).open("w", encoding="utf-8") as file:
        for row in predicted():
            file.write(json.dumps(row) + "\n")
            print(row, flush=True)


if __name__ == "__main__":
    main()
