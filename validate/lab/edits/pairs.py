"""Edits that people make of kernels, before and after: masks, offsets, casts, stages, loops, eviction, fusion.

    python validate/lab/edits/pairs.py OUT.ndjson --predict h100      anywhere: both sides of each pair, predicted [us]
    python validate/lab/edits/pairs.py OUT.ndjson [--compile K/N]     on a GPU: medians on an L2 of other data [us]

--compile takes each Nth launch from K on and runs it untimed, so that N processes fill Triton's cache side by side.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from launches import CleanL2, Run, times_us
from products import attention, matmul
from streaming import gather, polynomial, rms_norm, row_loss, scale, weighted_rows

REPEATS = 15
BFLOAT16, FLOAT32 = torch.bfloat16, torch.float32
OPTIONS: dict[str, dict[str, Any]] = {
    "one stage": {"num_stages": 1},
    "two stages": {"num_stages": 2},
    "four stages": {"num_stages": 4},
    "half of the warps": {"num_warps": 4},
    "no fusion of multiply and add": {"enable_fp_fusion": False},
}
"""Edits of a launch rather than of its kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A launch before and after an edit. Args: kernel, shape, edit: names; before, after: the launches."""

    kernel: str
    shape: str
    edit: str
    before: Run
    after: Run


def pairs(device: str) -> Iterator[Pair]:
    """All of them. Args: device: of the tensors, `cuda` or `meta`."""
    for kernel, shape, launch, edits in bases(device):
        for edit in edits:
            option = OPTIONS.get(edit, {})
            after = (lambda launch=launch, option=option: launch("", **option)) if option else (
                lambda launch=launch, edit=edit: launch(edit)
            )  # fmt: skip
            yield Pair(kernel=kernel, shape=shape, edit=edit, before=lambda launch=launch: launch(""), after=after)


def bases(device: str) -> Iterator[tuple[str, str, Callable[..., Any], tuple[str, ...]]]:
    """A kernel, its shape, what launches it with an edit and options, and the edits."""

    def random(*shape: int, dtype: torch.dtype = BFLOAT16) -> torch.Tensor:
        if device == "meta":
            return torch.empty(*shape, device=device, dtype=dtype)
        return torch.randn(*shape, device=device, dtype=torch.float32).to(dtype)

    for n in (1 << 24, 1 << 26):
        x, y = random(2 * n + 2), random(n)

        def scaled(edit: str, x: torch.Tensor = x, y: torch.Tensor = y, n: int = n, **options: Any) -> None:
            out = y.new_empty(n, dtype=FLOAT32) if edit == "float32 output" else y
            scale[(n // 1024,)](x, out, n, EDIT=edit, BLOCK=1024, **options)

        edits = ("mask", "int64 offsets", "evict first", "cache at L2 alone", "view that begins one element later")
        yield "scale", f"{n >> 20} Mi", scaled, (*edits, "strided view", "float32 output")
    for rows, width in ((8192, 4096), (32768, 1024)):
        x, w, y = random(rows, width), random(width), random(rows, width)

        def normed(
            edit: str, x: torch.Tensor = x, w: torch.Tensor = w, y: torch.Tensor = y,
            at: tuple[int, int] = (rows, width), **options: Any,
        ) -> None:  # fmt: skip
            rms_norm[(at[0],)](x, w, y, at[1], EDIT=edit, BLOCK=at[1], **{"num_warps": 8} | options)

        edits = ("mask", "int64 offsets", "squares in bfloat16", "row read twice", "division by a square root")
        yield "rms_norm", f"{rows} x {width}", normed, (*edits, "residual added", "half of the warps")
    for rows, width in ((2048, 32768), (16384, 4096)):
        x, loss = random(rows, width), random(rows, dtype=FLOAT32)
        target = torch.zeros(rows, device="cpu" if device == "meta" else device, dtype=torch.int32)

        def lost(
            edit: str, x: torch.Tensor = x, target: torch.Tensor = target, loss: torch.Tensor = loss,
            at: tuple[int, int] = (rows, width), **options: Any,
        ) -> None:  # fmt: skip
            row_loss[(at[0],)](x, target, loss, at[1], EDIT=edit, BLOCK=2048, **options)

        edits = ("two passes", "three stages", "loop unrolled by four", "mask", "powers of two")
        yield "row_loss", f"{rows} x {width}", lost, (*edits, "no fusion of multiply and add")
    for n, terms in ((1 << 24, 64), (1 << 23, 256)):
        x, y = random(n, dtype=FLOAT32), random(n, dtype=FLOAT32)

        def evaluated(
            edit: str, x: torch.Tensor = x, y: torch.Tensor = y, at: tuple[int, int] = (n, terms), **options: Any
        ) -> None:
            polynomial[(at[0] // 1024,)](x, y, at[1], EDIT=edit, BLOCK=1024, **options)

        edits = ("division in each term", "exponential in each term", "no fusion of multiply and add")
        yield "polynomial", f"{n >> 20} Mi, {terms} terms", evaluated, edits
    for rows, d in ((1 << 18, 256), (1 << 20, 64)):
        table, out = random(1 << 16, d), random(rows, d, dtype=FLOAT32)
        generator = torch.Generator().manual_seed(rows)
        index = torch.randint(0, 1 << 16, (rows,), generator=generator, dtype=torch.int32)
        index = index if device == "meta" else index.to(device)

        def gathered(
            edit: str, table: torch.Tensor = table, index: torch.Tensor = index, out: torch.Tensor = out, d: int = d,
            **options: Any,
        ) -> None:  # fmt: skip
            gather[(len(index) // 16,)](table, index, out, EDIT=edit, D=d, ROWS=16, **options)

        yield "gather", f"{rows} x {d}", gathered, ("int64 offsets", "mask", "evict last", "sum by atomics")
    for rows, k in ((16384, 8192), (8192, 4096)):
        w = torch.empty(rows, k, device=device, dtype=torch.int8)
        x, s, y = random(k), random(rows, dtype=FLOAT32), random(rows, dtype=FLOAT32)

        def weighted(
            edit: str, w: torch.Tensor = w, x: torch.Tensor = x, s: torch.Tensor = s, y: torch.Tensor = y,
            at: tuple[int, int] = (rows, k), **options: Any,
        ) -> None:  # fmt: skip
            weighted_rows[(at[0] // 16,)](w, x, s, y, at[1], EDIT=edit, ROWS=16, BLOCK=512, **options)

        edits = ("four stages", "scale in the loop", "products in bfloat16", "no fusion of multiply and add")
        yield "weighted_rows", f"{rows} x {k}", weighted, edits
    for m, n, k in ((4096, 4096, 4096), (2048, 8192, 1024)):
        a, b, c, wide = random(m, k), random(k, n), random(m, n), random(m, n, dtype=FLOAT32)

        def multiplied(
            edit: str, a: torch.Tensor = a, b: torch.Tensor = b, c: torch.Tensor = c, wide: torch.Tensor = wide,
            at: tuple[int, int, int] = (m, n, k), **options: Any,
        ) -> None:  # fmt: skip
            given = {"num_warps": 8, "num_stages": 3} | options
            out = wide if edit == "float32 output" else c
            matmul[(at[0] // 128 * (at[1] // 128),)](a, b, out, *at, EDIT=edit, BM=128, BN=128, BK=64, **given)

        edits = ("mask of K", "mask of rows", "int64 offsets", "no groups of rows", "B transposed", "sum in bfloat16")
        edits = (*edits, "A scaled before the product", "GELU behind the product", "float32 output")
        yield "matmul", f"{m} x {n} x {k}", multiplied, (*edits, "one stage", "two stages", "half of the warps")
    for heads, n, d in ((64, 2048, 64), (32, 4096, 128)):
        q, k, v, o = (random(heads, n, d) for _ in range(4))

        def attended(
            edit: str, qkvo: tuple[torch.Tensor, ...] = (q, k, v, o), at: tuple[int, int, int] = (heads, n, d),
            **options: Any,
        ) -> None:  # fmt: skip
            given = {"num_warps": 8, "num_stages": 3} | options
            attention[(at[1] // 128, at[0])](*qkvo, at[1], EDIT=edit, D=at[2], BM=128, BN=64, **given)

        edits = ("queries scaled before the loop", "causal mask on every tile", "mask of keys", "softcap")
        edits = (*edits, "natural exponential", "one stage", "two stages", "half of the warps")
        yield "attention", f"{heads} x {n} x {d}", attended, (*edits, "no fusion of multiply and add")


def name_of(pair: Pair) -> dict[str, Any]:
    """What a line says of its pair."""
    return {"kernel": pair.kernel, "shape": pair.shape, "edit": pair.edit}


def measure(out: Path) -> None:
    """Medians of single launches [us]; what the GPU's compiler refuses is said."""
    clean = CleanL2()
    with out.open("a") as file:
        for pair in pairs("cuda"):
            line = name_of(pair) | {"gpu": torch.cuda.get_device_name()}
            try:
                for run in (pair.before, pair.after):
                    run()
                line["us"] = [statistics.median(times_us(clean, run, REPEATS)) for run in (pair.before, pair.after)]
            except Exception as error:  # the other pairs are measured all the same
                line["failed"] = " ".join(str(error).split())[:300]
            file.write(json.dumps(line) + "\n")
            file.flush()


def compile_part(part: int, parts: int) -> None:
    """Run each so-manieth launch once."""
    for number, pair in enumerate(pairs("cuda")):
        if number % parts == part:
            for run in (pair.before, pair.after):
                try:
                    run()
                except Exception as error:  # said by the process that measures
                    print(name_of(pair), error)
    torch.cuda.synchronize()


def predict(out: Path, device: str) -> None:
    """Times of both [us], or why there are none."""
    import tilesight

    known: dict[tuple[str, str], float] = {}

    def predicted(run: Run) -> tuple[float, str]:
        with tilesight.capture(device) as launches:
            run()
        prediction = tilesight.predict(launches, device, l2="cold")
        (row,) = prediction.rows
        if row.prediction is None:
            raise RuntimeError(row.refused)
        return prediction.total.time_s * 1e6, row.prediction.bottleneck

    with out.open("a") as file:
        for pair in pairs("meta"):
            line: dict[str, Any] = name_of(pair) | {"device": device}
            try:
                base = (pair.kernel, pair.shape)
                if base not in known:
                    known[base] = predicted(pair.before)
                answers = [known[base], predicted(pair.after)]
                line |= {"us": [us for us, _ in answers], "bound_by": [bound for _, bound in answers]}
            except RuntimeError as error:
                line["failed"] = str(error)
            file.write(json.dumps(line) + "\n")
            file.flush()


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--predict", metavar="DEVICE")
    parser.add_argument("--compile", metavar="K/N")
    given = parser.parse_args()
    if given.predict:
        predict(given.out, given.predict)
    elif given.compile:
        compile_part(*map(int, given.compile.split("/")))
    else:
        measure(given.out)


if __name__ == "__main__":
    main()
