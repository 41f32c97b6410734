"""Hold predictions of public projects' kernels against what an H200 took: `python compare.py PREDICTED MEASURED`.

Both are lines of JSON (`.xz` too). Time is compared behind a flush of L2 that leaves nothing dirty; bytes into the SMs
are those that ncu counts on empty caches. Prints a table of launches and one of projects.
"""

import json
import lzma
import sys
from pathlib import Path
from statistics import mean, median
from typing import Any

PROJECTS = {
    "vllm": "vLLM", "flashinfer": "FlashInfer", "llmc": "llm.c", "bnb": "bitsandbytes", "flash2": "FlashAttention-2",
    "cutlass": "CUTLASS", "ggml": "ggml (llama.cpp)", "mamba": "Mamba", "conv1d": "causal-conv1d", "apex": "apex",
    "awq": "AWQ", "marlin": "Marlin", "exllama": "ExLlamaV2", "deepgemm": "DeepGEMM",
}  # fmt: skip
"""First word of a launch's name -> project."""
WITHIN = 0.01


def rows_of(path: Path) -> dict[str, dict[str, Any]]:
    """Lines of a file by name, the last of each."""
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open(encoding="utf-8") as file:
        return {row["name"]: row for row in map(json.loads, file)}


def error(predicted: float, measured: float) -> float:
    """Relative error."""
    return predicted / measured - 1


def main() -> None:
    """Print both tables."""
    predicted, measured = rows_of(Path(sys.argv[1])), rows_of(Path(sys.argv[2]))
    times: list[float] = []
    bytes_off: list[float] = []
    projects: dict[str, list[str]] = {name: [] for name in PROJECTS.values()}
    for name, row in predicted.items():
        of, took = projects[PROJECTS[name.split("_")[0]]], measured.get(name, {})
        if row.get("predicted_us") is None:
            print(f"| {name} | - | {took.get('clean_us', '-')} | refused: {row['refused'][:90]} | |")
            of.append("refused")
            continue
        of.append("predicted")
        if "clean_us" not in took:
            print(f"| {name} | {row['predicted_us']:.1f} | not measured | | |")
            continue
        times.append(error(row["predicted_us"], took["clean_us"]))
        off = error(row["smem_fill_bytes"], took["smem_fill_bytes"]) if took.get("smem_fill_bytes") else None
        bytes_off += [off] if off is not None else []
        said = f"{off:+.1%}" if off is not None else "-"
        print(f"| {name} | {row['predicted_us']:.1f} | {took['clean_us']:.1f} | {times[-1]:+.0%} | {said} |")
    print()
    for project, states in projects.items():
        if states:
            print(f"| {project} | {len(states)} | {states.count('predicted')} |")
    within = sum(abs(off) <= WITHIN for off in bytes_off)
    off = [abs(value) for value in times]
    answered = sum(row.get("predicted_us") is not None for row in predicted.values())
    print(f"\n{len(predicted)} launches, {answered} predicted")
    print(f"time: mean {mean(off):.1%}, median {median(off):.1%}, bias {mean(times):+.1%}, {len(off)} launches")
    print(f"bytes into the SMs: {within} of {len(bytes_off)} within {WITHIN:.0%}")


if __name__ == "__main__":
    main()
