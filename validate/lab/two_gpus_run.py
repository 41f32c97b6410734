"""Predict the steps of `two_gpus.py`, or measure them on two GPUs of one host.

python validate/lab/two_gpus_run.py --predict FILE                      a line each, without a GPU
NCCL_NVLS_ENABLE=0 python validate/lab/two_gpus_run.py --measure FILE   the same on two GPUs, in `LIMIT_S`
"""

import argparse
import json
import lzma
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
import two_gpus
from two_gpus import NAMES, PAIRS, ROUND, STEPS, decode, decode_inputs, group, pair, pair_inputs, train

LIMIT_S = 190.0
"""After which no more rows are begun [s]."""


def predicted(names: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """A row of each: of a pair what its kernels take alone, and both together [us]."""
    import tilesight

    for name in names:
        is_step = name in STEPS
        profile = tilesight.profile(
            f"{two_gpus.__file__}:{name}", device="h200", gpus=2, queue="stream" if is_step else "graph", l2="warm"
        )
        links = [row for row in profile.rows if row.kernel.source == "collective"]
        yield {
            "name": name,
            "together_us": profile.step_s * 1e6,
            "kernel_us": (profile.time_s - sum(row.time_s for row in links)) * 1e6,
            "collective_us": sum(row.time_s for row in links) * 1e6,
            "communication_us": profile.queued.communication_s * 1e6,
            "exposed_us": profile.queued.exposed_s * 1e6,
            "complete": profile.complete,
            "torch": torch.__version__,
        }


def timed(run: Callable[[], Any], times: int) -> float:
    """What a call takes of several, enqueued while the GPU sleeps [us]."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in "be")
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda._sleep(2_000_000)
    begin.record()
    for _ in range(times):
        run()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / times * 1e3


def interleaved(runs: dict[str, Callable[[], Any]], times: int, rounds: int) -> dict[str, list[float]]:
    """Of each what a call takes in each round, all of them by turns [us]."""
    made: dict[str, list[float]] = {key: [] for key in runs}
    for turn in range(rounds + 1):
        for key, run in runs.items():
            took = timed(run, times)
            if turn:
                made[key].append(round(took, 2))
    return made


def medians(made: dict[str, list[float]]) -> dict[str, float]:
    """Of each."""
    return {key: statistics.median(values) for key, values in made.items()}


def kernels_of(runs: dict[str, Callable[[], Any]]) -> dict[str, list[Any]]:
    """Kernels of each as torch's profiler has them: name, begin [us], length [us], grid, block, stream."""
    made = {}
    for key, run in runs.items():
        activities = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profiler:
            run()
            run()
            torch.cuda.synchronize()
        with TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            profiler.export_chrome_trace(str(path))
            events = [e for e in json.loads(path.read_text("utf-8"))["traceEvents"] if e.get("cat") == "kernel"]
        begin = min((e["ts"] for e in events), default=0.0)
        keys = ("grid", "block", "stream", "registers per thread", "shared memory")
        made[key] = [
            [e["name"][:90], round(e["ts"] - begin, 1), round(e["dur"], 1), *(e["args"].get(key) for key in keys)]
            for e in sorted(events, key=lambda event: event["ts"])
        ]
    return made


def graphed(run: Callable[[], Any]) -> Callable[[], None]:
    """The same in a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def measured(name: str) -> Iterator[dict[str, Any]]:
    """The rows of one name."""
    if name in PAIRS:
        run, times, reduce, late, stream = pair_inputs(name)
        runs = {
            "kernel": lambda: [run() for _ in range(times)],
            "collective": reduce,
            "together": lambda: pair(run, times, reduce, late, stream),
        }
        made = interleaved(runs, 5, 7)
        yield {"name": name, **{f"{key}_us": value for key, value in medians(made).items()}, "all": made}
        yield {"name": name, "kernels": kernels_of(runs)}
        return
    if name == "decode":
        given = decode_inputs()
        run = graphed(lambda: decode(*given))
        made = interleaved({"together": run}, 20, 5)
        yield {"name": name, "together_us": medians(made)["together"], "all": made}
        yield {"name": name, "kernels": kernels_of({"together": run})}
        return
    if name in STEPS:
        model, x = vars(two_gpus)[f"{name}_inputs"]()
        made = interleaved({"together": lambda: train(model, x)}, 3, 4)
        slowest = torch.tensor(medians(made)["together"], device="cuda")
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        yield {"name": name, "together_us": medians(made)["together"], "slowest_us": slowest.item(), "all": made}
        yield {"name": name, "kernels": kernels_of({"together": lambda: train(model, x)})}
        return
    given = vars(two_gpus)[f"{name}_inputs"]()
    made = interleaved({"together": lambda: vars(two_gpus)[name](*given)}, 10, 5)
    yield {"name": name, "together_us": medians(made)["together"], "all": made}


def work(rank: int, path: str, began: float, names: tuple[str, ...]) -> None:
    """One of two processes; the first writes."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29513", "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": "2"}
    torch.cuda.set_device(rank)
    group()

    def put(row: dict[str, Any]) -> None:
        row["at_s"] = round(time.time() - began, 1)
        if rank == 0:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps({key: value for key, value in row.items() if key not in ("all", "kernels")}), flush=True)

    put({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "nccl": str(torch.cuda.nccl.version())})
    for name in names:
        late = torch.tensor([float(time.time() - began > LIMIT_S)], device="cuda")
        dist.all_reduce(late)  # both go on, or none does
        if late.item():
            put({"name": name, "skipped": "no time left"})
            break
        try:
            for row in measured(name):
                put(row)
        except Exception as error:
            put({"name": name, "error": f"{type(error).__name__}: {error}"[:300]})
        torch.cuda.empty_cache()
    dist.destroy_process_group()


def rows_of(path: str) -> dict[str, dict[str, Any]]:
    """Rows with a time of a file of either kind, by their names."""
    with (lzma.open if path.endswith(".xz") else open)(path, "rt", encoding="utf-8") as text:
        return {row["name"]: row for row in map(json.loads, text) if "together_us" in row}


def compared(predicted_path: str, measured_path: str) -> Iterator[str]:
    """A line for each name: each time as measured [us], and how far the predicted one is off."""
    before, after = rows_of(predicted_path), rows_of(measured_path)
    for name in (name for name in before if name in after):
        keys = [key for key in ("kernel_us", "collective_us", "together_us") if after[name].get(key)]
        yield f"{name:36}" + "".join(
            f"{key[:-3]:>12} {after[name][key]:9.1f} {before[name][key] / after[name][key] - 1.0:+7.1%}" for key in keys
        )


def main() -> None:
    """Predict, measure or compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--predict")
    parser.add_argument("--measure")
    parser.add_argument("--compare", nargs=2)
    parser.add_argument("--second", action="store_true", help="the second round alone")
    asked = parser.parse_args()
    first = (*list(PAIRS)[:ROUND], *STEPS[:4], "decode", *NAMES[len(PAIRS) :])
    names = (*list(PAIRS)[ROUND:], *STEPS[4:]) if asked.second else first
    if asked.compare:
        print("\n".join(compared(*asked.compare)))
        return
    if asked.measure:
        torch.multiprocessing.spawn(work, args=(asked.measure, time.time(), names), nprocs=2)
        return
    with Path(asked.predict).open("w", encoding="utf-8") as file:
        for row in predicted(names):
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(row, flush=True)


if __name__ == "__main__":
    main()
