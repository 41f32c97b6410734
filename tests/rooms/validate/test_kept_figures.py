"""From compressed machine code through the simulation of an SM to costs, without a compiler: those of the library."""

from dataclasses import replace

import numpy as np
import pytest
from support.recorded_code import FILE, Kernel, recorded
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.library.files import Kernel as Kept
from tilesight.simulator.library.lookup import find_kernel
from tilesight.validate.library.kept_figures import difference, figures_on

RECORDED = recorded()
CYCLES = 1 / 16
"""The library keeps figures in sixteenths of a cycle, and slowdowns by age in 4096ths."""
SHARES = 1 / 4096


def label(kernel: Kernel) -> str:
    options = ",".join(f"{name}={value}" for name, value in kernel.options.items())
    return f"{kernel.device}-{kernel.name}-{kernel.problem.head_dim}-{options}"


@pytest.mark.parametrize(("kernel", "launch"), RECORDED, ids=[label(kernel) for kernel, _ in RECORDED])
def test_code_gives_the_costs_that_the_library_keeps(kernel: Kernel, launch: Launch) -> None:
    """Every figure of every step, for each number of CTAs that share an SM, to what the library resolves."""
    made = figures_on([launch], [kernel.gpu])
    kept = find_kernel(kernel.launch, kernel.gpu)
    assert kept is not None and kept.figures is not None
    assert made.steps == kept.figures.steps
    (condition,) = made.conditions
    (place,) = np.flatnonzero((kept.figures.conditions == condition).all(axis=1))
    assert np.abs(made.values[0] - kept.figures.values[place]).max() <= CYCLES / 2
    assert np.abs(made.slowdown_by_age[0] - kept.figures.slowdown_by_age[place]).max() <= SHARES / 2


def test_the_recorded_code_is_small_and_of_every_kind() -> None:
    """Both architectures, plain and specialised warps, kernels with loops and without, one that spills."""
    assert FILE.stat().st_size < 300_000
    kinds = {(kernel.gpu.compute_capability, kernel.name) for kernel, _ in RECORDED}
    names = {"flash1", "flash2", "flash2_tma", "scores", "softmax", "output", "mask"}
    assert {name for capability, name in kinds if capability == "9.0"} == names
    assert {name for capability, name in kinds if capability == "8.0"} == {"flash2", "scores"}
    assert any(launch.resources.spilled_bytes_per_thread for _, launch in RECORDED)
    assert any(kernel.options.get("warp_specialize") for kernel, _ in RECORDED)


def test_a_kernel_made_anew_is_told_from_the_one_that_is_kept() -> None:
    """By what it takes, by a figure more than a hundredth off, or by being nowhere; a cycle is no difference."""
    launch = RECORDED[0][0]
    kept = find_kernel(launch.launch, launch.gpu)
    assert kept is not None and kept.figures is not None
    assert difference(kept, kept) == ""
    assert difference(None, kept) == "is not kept"
    cycle = replace(kept, figures=replace(kept.figures, values=kept.figures.values + 0.9))
    assert difference(kept, cycle) == ""
    slower = replace(kept, figures=replace(kept.figures, values=kept.figures.values * 1.05 + 1.0))
    assert "CTAs on an SM, kept is" in difference(kept, slower)
    resources = dict(kept.resources) | {"registers_per_thread": 255}
    assert difference(kept, replace(kept, resources=resources)).startswith("takes {")


def test_a_kernel_that_does_not_fit_is_as_kept_where_it_is_refused_for_the_same_reason() -> None:
    """The compiler names no registers of what it refuses; the library may have kept them."""
    kept = Kept(resources={"registers_per_thread": 255}, reason="shared memory: a CTA needs too much")
    refused = Kept(resources={}, reason=kept.reason)
    assert difference(kept, refused) == ""
    assert difference(kept, replace(refused, reason="registers: a thread needs too many")).startswith("takes {}")
    assert difference(kept, replace(kept, resources={"registers_per_thread": 128})).startswith("takes {")
