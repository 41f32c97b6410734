"""Every template and the library's kernel of products, as torch's max_autotune times them on a GPU, and as predicted.

    python validate/lab/torch_templates.py measure FILE.jsonl [PRODUCT ...]             on a GPU
    python validate/lab/torch_templates.py predict DEVICE FILE.jsonl [PRODUCT ...]      no GPU: the same choices
    python validate/lab/torch_templates.py judge MEASURED.jsonl PREDICTED.jsonl

A product is written `M x K x N` as in `8192x768x2304`, with `+` before it where a vector is added, or `B*MxKxN`.
"""

import json
import sys
from math import isfinite
from pathlib import Path
from statistics import fmean, median
from typing import Any
from unittest.mock import patch

import torch

PRODUCTS = (
    *("+8192x768x2304", "+8192x768x768", "+12608x1024x1024", "32768x320x320", "+100352x192x576", "4096x4096x4096"),
    *("32x4096x4096", "32x4096x14336", "64x4096x11008", "2048x8192x2048", "+64x256x256", "16384*27x128x27"),
)


def product(text: str, device: str) -> tuple[Any, tuple[torch.Tensor, ...]]:
    """What multiplies, and its bf16 operands: rows times the transpose of weights, as a linear layer has it."""
    batch, _, sizes = text.lstrip("+").rpartition("*")
    m, k, n = map(int, sizes.split("x"))
    drawn = lambda *shape: torch.randn(*shape, device=device, dtype=torch.bfloat16)  # noqa: E731
    if batch:
        return torch.bmm, (drawn(int(batch), m, k), drawn(int(batch), n, k).mT)
    bias = (drawn(n),) if text.startswith("+") else ()
    return torch.nn.functional.linear, (drawn(m, k), drawn(n, k), *bias)


def described(choice: Any) -> dict[str, Any]:
    """A template by its tile (M, K, N), stages and warps; another choice by its name."""
    info = getattr(choice, "log_info", {})
    names = ("tile_shape", "num_stages", "num_warps")
    return {name: info[name] for name in names} if "tile_shape" in info else {"name": choice.name.rpartition("_")[0]}


def measure(file: Path, names: list[str]) -> None:
    """Have torch time all its choices: by events around each call, and by its profiler."""
    from torch._inductor.select_algorithm import add_feedback_saver

    with file.open("a", encoding="utf-8") as lines:
        for name in names or PRODUCTS:

            def keep(timings: Any, _: Any, __: Any, choices: Any, profiled: Any, *___: Any, name: str = name) -> None:
                alone = profiled()
                for choice in choices:
                    entry = {"product": name, **described(choice), "us": 1e3 * timings.get(choice, float("inf"))}
                    lines.write(json.dumps(entry | {"profiled_us": 1e3 * alone.get(choice, float("inf"))}) + "\n")
                lines.flush()

            torch._dynamo.reset()
            torch._inductor.select_algorithm.clear_feedback_savers()
            add_feedback_saver(keep)
            run, given = product(name, "cuda")
            torch.compile(run, mode="max-autotune-no-cudagraphs")(*given)


def predict(device: str, file: Path, names: list[str]) -> None:
    """Predict all choices, not the few that a profile predicts."""
    from tilesight.kernels.pytorch.choosing import selection

    import tilesight

    weigh = selection.Selection._predicted
    with file.open("a", encoding="utf-8") as lines:
        for name in names or PRODUCTS:

            def keep(chooser: Any, kind: str, choices: Any, name: str = name) -> Any:
                times = weigh(chooser, kind, choices)
                entries = zip(choices, times, strict=True)
                lines.writelines(
                    json.dumps({"product": name, **described(choice), "us": 1e6 * time_s}) + "\n"
                    for choice, time_s in entries
                )
                lines.flush()  # the step runs in a fork
                return times

            run, given = product(name, "meta")
            made = torch.compile(run, mode="max-autotune-no-cudagraphs")
            with (
                patch.object(selection, "MOST_PREDICTED", 1000),
                patch.object(selection.Selection, "_predicted", keep),
                torch.no_grad(),
            ):
                tilesight.profile(made, *given, device=device)


def judge(measured: Path, predicted: Path) -> None:
    """Print errors of templates, and what the template predicted fastest takes over the fastest measured."""
    truth, answers = read(measured), read(predicted)
    errors, ratios = [], []
    for name in dict.fromkeys(name for name, _ in truth):
        pairs = {
            key[1]: (truth[key], answers[key])
            for key in truth
            if key[0] == name and key in answers and isfinite(truth[key]) and isfinite(answers[key])
        }
        templates = {key: pair for key, pair in pairs.items() if "num_warps" in key}
        if not templates:
            print(f"{name:22} nothing in both")
            continue
        mine = [guess / taken - 1 for taken, guess in templates.values()]
        chosen = min(templates.values(), key=lambda pair: pair[1])[0]
        best = min(templates.values())
        ratios.append(chosen / best[0])
        errors += mine
        library = [pair for key, pair in pairs.items() if "num_warps" not in key]
        print(
            f"{name:22} {len(templates):3} templates {fmean(map(abs, mine)):6.1%} off, bias {fmean(mine):+6.1%};"
            f" best {best[0]:8.1f} us, chosen {ratios[-1]:.3f}; library {library}"
        )
    print(f"{len(errors)} templates: mean {fmean(map(abs, errors)):.1%}, median {median(map(abs, errors)):.1%},")
    print(f"worst {max(errors, key=abs):+.1%}; chosen over best {fmean(ratios):.3f}, worst {max(ratios):.3f}")


def read(file: Path) -> dict[tuple[str, str], float]:
    """Times by product and choice, of the profiler where there is one [us]."""
    times = {}
    for entry in map(json.loads, file.read_text("utf-8").splitlines()):
        key = {name: entry[name] for name in entry if name not in ("product", "us", "profiled_us")}
        times[entry["product"], json.dumps(key)] = entry.get("profiled_us") or entry["us"]
    return times


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "measure":
        measure(Path(rest[0]), rest[1:])
    elif kind == "predict":
        predict(rest[0], Path(rest[1]), rest[2:])
    else:
        judge(Path(rest[0]), Path(rest[1]))
