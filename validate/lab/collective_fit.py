"""Numbers of the table `collective` of a GPU, fitted on public rows: needs pyarrow and scipy, no GPU.

    python validate/lab/collective_fit.py WHEEL rtx-pro-6000 'nccl 2.29.2*' [--tries 4]

Minimises the mean |log(predicted / measured)| over the rows whose part is not `test`, by Nelder-Mead from the
device's numbers of today and from draws about them, and prints numbers and mean errors of both parts. LL sends a flag
with every four bytes, so it reaches half of the link at most.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from math import exp, log
from pathlib import Path
from statistics import fmean

import numpy as np
from scipy.optimize import minimize
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.operations.cost_model import KernelCostModel
from tilesight.simulator.operations.families.collectives import protocols
from tilesight.validate.tables.rows import COLLECTIVE_ITEM_BYTES, TableRow, read_rows

RINGS = ("ll_s", "ll_step_s", "ll_bytes_per_s", "simple_s", "simple_step_s", "simple_fraction", "own_bytes_per_s")
PAIRS = ("pairs_ll_s", "pairs_ll_bytes_per_s", "pairs_simple_s", "pairs_simple_fraction")
PCIE, NVLINK = ("pcie_few_fraction", "pcie_many_fraction"), ("ll128_s", "ll128_step_s", "ll128_bytes_per_s")
SWITCH = ("switch_s", "switch_fraction")
MOST = {"own_bytes_per_s": 2e12, "_step_s": 2e-5, "_s": 1e-4, "_fraction": 1.0}
MB = 1 << 20


def with_numbers(device: Device, numbers: Mapping[str, float]) -> Device:
    """A device with other numbers of collectives."""
    kernels = device.torch_kernels
    for name, value in numbers.items():
        kernels = kernels.with_number(f"collective.{name}", value, kernels[f"collective.{name}"].origin)
    return replace(device, torch_kernels=kernels)


def bounded(name: str, value: float, device: Device) -> float:
    """A value within what the protocol allows."""
    if name in ("ll_bytes_per_s", "pairs_ll_bytes_per_s"):
        return min(value, device.link_bytes_per_s / 2)
    return min(value, next((most for end, most in MOST.items() if name.endswith(end)), value))


def logs(device: Device, rows: Sequence[TableRow]) -> list[float]:
    """Log of predicted over measured."""
    gpu, made = KernelCostModel(device), []
    for row in rows:
        size = row.sizes["elements"] * COLLECTIVE_ITEM_BYTES[row.dtype]
        kind = "all_to_all" if row.source == "alltoall" else row.source
        made.append(log(min(protocols(kind, row.sizes["gpus"], size, gpu))[0] / row.time_s))
    return made


def report(device: Device, rows: Sequence[TableRow], said: str) -> None:
    """Mean errors below and from 1 MB on."""
    for long in (False, True):
        some = [row for row in rows if (row.sizes["elements"] * COLLECTIVE_ITEM_BYTES[row.dtype] >= MB) == long]
        error = fmean(abs(exp(made) - 1) for made in logs(device, some))
        print(f"{said}, {'1 MB and more' if long else 'below 1 MB'}: {len(some)} rows, {error:.1%}")


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("device")
    parser.add_argument("framework")
    parser.add_argument("--tries", type=int, default=4)
    asked = parser.parse_args()
    device, random = load_device(asked.device), np.random.default_rng(0)
    read = read_rows(asked.wheel, "collective", [asked.device])
    rows = [row for row in read if fnmatchcase(row.framework, asked.framework)]
    known, test = ([row for row in rows if (row.part == "test") == is_test] for is_test in (False, True))
    names = (*RINGS, *PAIRS, *((*NVLINK, *SWITCH) if device.nvlink_bytes_per_s else PCIE))
    start = np.log([device.torch_kernels[f"collective.{name}"].value for name in names])

    def made(values: Sequence[float]) -> Device:
        pairs = zip(names, values, strict=True)
        return with_numbers(device, {name: bounded(name, exp(value), device) for name, value in pairs})

    best = None
    for number in range(asked.tries):
        begin = start + random.normal(0, 0.3, len(names)) * (number > 0)
        outcome = minimize(
            lambda values: fmean(map(abs, logs(made(values), known))),
            begin,
            method="Nelder-Mead",
            options={"maxfev": 4000, "adaptive": True, "fatol": 1e-6, "xatol": 1e-4},
        )
        print(f"try {number}: {outcome.fun:.4f}", flush=True)
        best = outcome if best is None or outcome.fun < best.fun else best
    assert best is not None
    fitted = made(best.x)
    for name in names:
        print(f"{name} = {fitted.torch_kernels[f'collective.{name}'].value:.3g}")
    report(fitted, known, "fitted on")
    report(fitted, test, "test")


if __name__ == "__main__":
    main()
