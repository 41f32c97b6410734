"""How far predicted times are off, by what they are predicted: a roofline, a published peer, tiles, compiled code.

    python validate/lab/compare_costs.py FILE... [--half test] [--unlike FILE] [--llm-viewer FOLDER]

FILE holds results of `tilesight validate`; points whose problem stands in the file of `--unlike` are left out.
FOLDER is a checkout of LLM-Viewer (github.com/hahnyuan/LLM-Viewer), which
runs on a CPU as well; it knows attention of as many queries as keys without a mask, whatever the configuration.
All rows of a table are over the same points. Needs torch and the Triton that compiled what ran.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from tilesight.simulator.device.device import load_device
from tilesight.simulator.jobs.pool import run_all
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import simulate
from tilesight.validate.compare.compare import compare
from tilesight.validate.compare.recompile import with_code
from tilesight.validate.measure.results_file import Row, read_results
from tilesight.validate.timing.timing import OVERHEAD

DEVICE = load_device("h200")
LEAST_GROUP = 6
"""Configurations of a shape that are ranked."""


def roofline_s(problem: AttentionProblem) -> float:
    """The larger of operations at the tensor cores' rate, and inputs and outputs at the memory's."""
    pairs = problem.batch * problem.heads * problem.seqlen_q * problem.seqlen_k * (0.5 if problem.causal else 1.0)
    flop_per_s = DEVICE.wgmma_fp16_flop_per_cycle * DEVICE.sms * DEVICE.boost_clock_hz
    rows = 2 * problem.heads * problem.seqlen_q + 2 * problem.kv_heads * problem.seqlen_k
    size_bytes = problem.batch * rows * problem.head_dim * problem.element_bytes
    return max(4.0 * pairs * problem.head_dim / flop_per_s, size_bytes / DEVICE.hbm_read_bytes_per_s)


def predicted_s(row_and_cost: tuple[Row, str]) -> float:
    """Our own prediction of a row."""
    row, cost = row_and_cost
    point = row.point
    prediction = simulate(
        point.problem,
        schedule=point.schedule,
        config=point.config,
        device=DEVICE,
        l2=point.l2,
        overhead=OVERHEAD,
        resources=row.resources,
        cost=cost,
    )
    return compare(row, prediction).pairs["time_s"].predicted


def llm_viewer(folder: Path) -> Callable[[Row], float | None]:
    """What LLM-Viewer says of a point's problem, fused or not; None where it has no such problem."""
    sys.path.insert(0, str(folder))
    unused = ModuleType("transformers")
    for name in ("AutoTokenizer", "AutoConfig", "AutoModelForCausalLM"):
        setattr(unused, name, None)
    sys.modules.setdefault("transformers", unused)
    analyzer = __import__("model_analyzer")
    parameters = __import__("hardwares.hardware_params", fromlist=["hardware_params"]).hardware_params
    parameters["h200"] = parameters["nvidia_H100_SXM"] | {"bandwidth": DEVICE.hbm_peak_bytes_per_s}

    def ask(row: Row) -> float | None:
        problem = row.point.problem
        if problem.causal or problem.seqlen_q != problem.seqlen_k:
            return None
        model = analyzer.ModelAnalyzer.__new__(analyzer.ModelAnalyzer)
        model.hardware, model.model_id = "h200", "attention"
        model.model_params = None
        model.config = SimpleNamespace(
            get_num_attention_heads=lambda _: problem.heads,
            get_hidden_size=lambda _: problem.heads * problem.head_dim,
            get_num_key_value_heads=lambda _: problem.kv_heads,
            get_num_hidden_layers=lambda _: 1,
            get_linear_layers=lambda *_: {},
            get_norm_layers=lambda _: [],
            post_process=lambda *_: [],
        )
        fused = row.point.schedule not in ("naive", "unfused")
        model.analyze(problem.seqlen_q, problem.batch, use_flashattention=fused)
        names = ("fused_attention",) if fused else ("qk_matmul", "softmax", "sv_matmul")
        return float(sum(model.results["prefill"][name]["inference_time"] for name in names))

    return ask


def table(title: str, rows: list[Row], times_by_name: dict[str, list[float]]) -> None:
    """Print errors of each prediction over the same rows."""
    measured = np.array([row.outcome.timing.median_s for row in rows])  # type: ignore[union-attr]
    groups: dict[Any, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault((row.point.schedule, row.point.problem), []).append(number)
    ranked = [group for group in groups.values() if len(group) >= LEAST_GROUP]
    print(f"\n{title}: {len(rows)} points\n")
    print("| predicted by | mean error | median | within 12 % | rank correlation, worst shape | chosen / best, worst |")
    print("|---|---|---|---|---|---|")
    for name, values in times_by_name.items():
        predicted = np.array(values)
        error = np.abs(predicted / measured - 1.0)
        ranks, chosen = [], []
        for group in ranked:
            if np.ptp(predicted[group]) > 0:
                ranks.append(spearmanr(predicted[group], measured[group]).statistic)
                chosen.append(measured[group][np.argmin(predicted[group])] / measured[group].min())
        order = f"{min(ranks):.2f} | {max(chosen):.2f}" if ranks else "- | -"
        print(f"| {name} | {error.mean():.1%} | {np.median(error):.1%} | {np.mean(error < 0.12):.0%} | {order} |")


def main() -> None:
    """Predict, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--half", default="all", choices=("test", "fitting", "all"))
    parser.add_argument("--unlike", type=Path)
    parser.add_argument("--llm-viewer", type=Path)
    options = parser.parse_args()
    known = {row.point.problem for row in read_results(options.unlike)[1]} if options.unlike else set()
    rows: list[Row] = []
    for path in options.results:
        header, every = read_results(path)
        timed = [row for row in every if getattr(row.outcome, "timing", None) and row.point.problem not in known]
        coded, note = with_code(timed, DEVICE, header.machine.triton)
        print(f"{path}: {note}")
        rows += [row for row in coded if options.half in ("all", row.point.half)]
    times_by_name = {"roofline": [roofline_s(row.point.problem) for row in rows]}
    for cost in ("tiles", "compiled"):
        times_by_name[cost] = list(run_all(predicted_s, [(row, cost) for row in rows], 2, None))
    kinds = {"all": None, "tiled": ("flash1", "flash2", "flash2_tma"), "pipelines": ("naive", "unfused")}
    for title, schedules in kinds.items():
        chosen = [number for number, row in enumerate(rows) if schedules is None or row.point.schedule in schedules]
        table(
            title,
            [rows[i] for i in chosen],
            {name: [values[i] for i in chosen] for name, values in times_by_name.items()},
        )
    if options.llm_viewer:
        ask = llm_viewer(options.llm_viewer)
        theirs = [ask(row) for row in rows]
        chosen = [number for number, value in enumerate(theirs) if value is not None]
        both = {"LLM-Viewer": [theirs[i] for i in chosen]}
        both |= {name: [values[i] for i in chosen] for name, values in times_by_name.items()}
        table("as many queries as keys, no mask", [rows[i] for i in chosen], both)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
