"""Estimated beside compiled registers, shared memory, spills and residency, over whole configuration spaces.

Run it with `python validate/lab/estimates.py [--device NAME ...] [--schedule NAME ...] [--csv FILE]`:
it prints the tables of `docs/resources.md`. It needs torch and triton, but no GPU.
Compiling everything takes about an hour on two cores; results are kept on disk, so a second run takes seconds.
"""

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tilesight.kernels.compile.compile import compile_many, with_resources
from tilesight.kernels.compile.outcomes import Compiled, Outcome
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.display.render import config_text
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.refusal import Refusal
from tilesight.simulator.residency.occupancy import occupancy
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import launches_of

FULL, CAUSAL = {"head_dim": 64, "causal": False}, {"head_dim": 128, "causal": True}
BOTH, A100, H200 = (FULL, CAUSAL), "a100-sxm-80gb", "h200"
SPACES: dict[str, dict[str, tuple[dict, ...]]] = {
    "flash2": {A100: BOTH, "l40s": (FULL,), H200: BOTH, "b200": BOTH, "rtx-5090": (FULL,)},
    "flash2_tma": {H200: BOTH, "b200": (FULL,)},
    "flash1": {A100: (FULL,), H200: (FULL,)},
    "naive": {A100: (FULL,), H200: (FULL,)},
    "unfused": {A100: (FULL,), H200: (FULL,)},
    "online_softmax": {A100: (FULL,), H200: (FULL,)},
}
"""Schedule -> device (sm_80, 89, 90, 100 or 120) -> shapes."""
ROW_WISE = ("softmax", "scale", "mask", "dropout")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kernel of a configuration, and what the compiler made of it."""

    schedule: str
    launch: Launch
    problem: AttentionProblem
    config: Config
    device: Device
    outcome: Outcome

    @property
    def group(self) -> tuple[str, str]:
        """Kernel and architecture; row-wise kernels have one configuration each, and share a group."""
        kernel = "row-wise" if self.launch.name in ROW_WISE else self.launch.name
        return kernel, f"sm_{self.device.compute_capability.replace('.', '')}"

    @property
    def label(self) -> str:
        """Configuration and shape, in short."""
        shape = f"D = {self.problem.head_dim}{', causal' if self.problem.causal else ''}"
        if self.launch.name in ROW_WISE:
            return f"{self.launch.name}, {shape}"
        space = find_schedule(self.schedule).space
        return f"{config_text({name: getattr(self.config, name) for name in space})}, {shape}"

    @property
    def ctas_per_sm(self) -> tuple[int, int]:
        """Residency by the estimate, and by the compiled kernel; 0 where it cannot run."""
        compiled = isinstance(self.outcome, Compiled)
        return residency(self.launch, self.device), (
            residency(with_resources(self.launch, self.outcome), self.device) if compiled else 0
        )


def residency(launch: Launch, device: Device) -> int:
    """CTAs that an SM holds at once; 0 where it holds none."""
    fit = occupancy(launch.resources, launch.warps_per_cta, device)
    return 0 if isinstance(fit, Refusal) else fit.ctas_per_sm


def rows_of(name: str, device: Device, shapes: tuple[dict, ...], workers: int) -> Iterator[Row]:
    """Every different kernel of a schedule's space on a device."""
    schedule = find_schedule(name)
    fixed = {"warp_split": "q"} if "warp_split" in schedule.options else {}
    for shape in shapes:
        # Of the lengths, only divisibility matters to the compiler.
        problem = AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, **shape)
        kernels: dict[tuple, tuple[Launch, Config]] = {}
        for config in schedule.configs(**fixed):
            try:
                launches = launches_of(problem, name, config, device)
            except ValueError:  # the schedule says itself that the device cannot do it
                continue
            for launch in launches:
                if name != "unfused" or launch.name in ROW_WISE[1:]:  # its other kernels are those of naive
                    same = (launch.name, launch.num_warps, launch.num_stages, *launch.constants.items())
                    kernels.setdefault(same, (launch, config))
        wanted = [launch for launch, _ in kernels.values()]

        def tick(done: int, total: int, what: str = f"{name} on {device.name}, {shape}") -> None:
            print(f"\r{what}: {done} of {total}  ", end="", file=sys.stderr, flush=True)

        outcomes = compile_many(wanted, device, workers=workers, progress=tick)
        for (launch, config), outcome in zip(kernels.values(), outcomes, strict=True):
            yield Row(schedule=name, launch=launch, problem=problem, config=config, device=device, outcome=outcome)
    print(file=sys.stderr)


def print_errors(title: str, groups: dict[tuple[str, str], list[Row]], field: str) -> None:
    """Errors of an estimated number, (estimated - compiled) / compiled, over the kernels that compile and fit."""
    print(f"## {title}\n\n| kernel | target | kernels | exact | median | 95th percentile | worst | which |")
    print("|---|---|---|---|---|---|---|---|")
    for (kernel, target), rows in groups.items():
        errors = []
        for row in rows:
            if isinstance(row.outcome, Compiled):
                estimated, compiled = getattr(row.launch.resources, field), getattr(row.outcome.resources, field)
                error = (estimated - compiled) / compiled if compiled else float(estimated > 0)
                errors.append((abs(error), error, row.label))
        size = np.array([error[0] for error in errors])
        _, worst, label = max(errors)
        print(
            f"| `{kernel}` | {target} | {len(size)} | {(size == 0).mean():.0%} | {np.median(size):.1%} "
            f"| {np.quantile(size, 0.95):.0%} | **{worst:+.0%}** | {label if worst else ''} |"
        )
    print()


def print_spills(groups: dict[tuple[str, str], list[Row]]) -> None:
    """Which kernels spill, in truth and by the estimate."""
    print("## Spills\n\n| kernel | target | kernels | spill | foreseen | false alarms | most missed | which |")
    print("|---|---|---|---|---|---|---|---|")
    for (kernel, target), rows in groups.items():
        pairs = [
            (row.outcome.resources.spilled_bytes_per_thread, row.launch.resources.spilled_bytes_per_thread, row.label)
            for row in rows
            if isinstance(row.outcome, Compiled)
        ]
        spilling = [pair for pair in pairs if pair[0]]
        missed = max((pair for pair in spilling if not pair[1]), default=(0, 0, ""))
        print(
            f"| `{kernel}` | {target} | {len(pairs)} | {len(spilling)} | {sum(pair[1] > 0 for pair in spilling)} "
            f"| {sum(pair[1] > 0 and not pair[0] for pair in pairs)} "
            f"| {f'**{missed[0]} B**' if missed[0] else ''} | {missed[2]} |"
        )
    print()


def print_residency(groups: dict[tuple[str, str], list[Row]]) -> None:
    """CTAs on an SM by the estimate and by the compiled kernel; 0 where it cannot run."""
    print(
        "## CTAs on an SM\n\n| kernel | target | kernels | equal | one off | more | wrong about fit | worst | which |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for (kernel, target), rows in groups.items():
        pairs = [(*row.ctas_per_sm, row.label) for row in rows]
        off = [abs(estimated - compiled) for estimated, compiled, _ in pairs]
        wrong_about_fit = sum((estimated > 0) != (compiled > 0) for estimated, compiled, _ in pairs)
        estimated, compiled, label = max(pairs, key=lambda pair: (abs(pair[0] - pair[1]), pair))
        print(
            f"| `{kernel}` | {target} | {len(off)} | {off.count(0) / len(off):.0%} | {off.count(1)} "
            f"| {sum(size > 1 for size in off)} | {wrong_about_fit} "
            f"| {f'**{estimated} for {compiled}**' if max(off) else ''} | {label if max(off) else ''} |"
        )
    print()


def print_refused(rows: list[Row]) -> None:
    """What does not compile, or not into something that fits, by reason."""
    reasons = Counter(
        (row.group[1], row.outcome.reason.split(":")[0]) for row in rows if isinstance(row.outcome, Refusal)
    )
    print("## Without a result\n\n| target | reason | kernels |\n|---|---|---|")
    for (target, reason), count in sorted(reasons.items()):
        print(f"| {target} | {reason} | {count} |")


def write_csv(rows: list[Row], path: Path) -> None:
    """One line a kernel."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        choices = ("block_m", "block_n", "num_warps", "num_stages")
        figures = ("registers_per_thread", "smem_bytes_per_cta", "spilled_bytes_per_thread")
        kinds = [f"{kind}_{name}" for kind in ("estimated", "compiled") for name in (*figures, "ctas_per_sm")]
        writer.writerow(("kernel", "target", "head_dim", "causal", *choices, *kinds, "reason"))
        for row in rows:
            cells = [row.launch.name, row.group[1], row.problem.head_dim, row.problem.causal]
            cells += [getattr(row.config, name) for name in choices]
            estimated, compiled = row.ctas_per_sm
            cells += [*(getattr(row.launch.resources, name) for name in figures), estimated]
            if isinstance(row.outcome, Compiled):
                cells += [*(getattr(row.outcome.resources, name) for name in figures), compiled, ""]
            else:
                cells += ["", "", "", "", row.outcome.reason]
            writer.writerow(cells)


def main() -> None:
    """Compile, and print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", action="append")
    parser.add_argument("--schedule", action="append")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--csv", type=Path, help="write a line for each kernel")
    options = parser.parse_args()
    rows = [
        row
        for name in options.schedule or SPACES
        for device, shapes in SPACES[name].items()
        if device in (options.device or SPACES[name])
        for row in rows_of(name, load_device(device), shapes, options.workers)
    ]
    if options.csv:
        write_csv(rows, options.csv)
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    print_errors("Shared memory", groups, "smem_bytes_per_cta")
    print_errors("Registers", groups, "registers_per_thread")
    print_spills(groups)
    print_residency(groups)
    print_refused(rows)


if __name__ == "__main__":
    main()
