"""The project's own kernels, traced from their machine code, do what their hand-written programs say.

Same bytes, CTA by CTA and tensor by tensor; cycles within 1 %.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tilesight.kernels.launch.availability import missing_package

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from tilesight.kernels.capture.lowering import lower
from tilesight.kernels.compile.calls import compile_calls
from tilesight.kernels.launch.launch import allocate, arguments_of, parameter_names
from tilesight.kernels.launch.registry import find_twin
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.launch.walk import accesses, steps, tally
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.residency.l1_room import kept_of
from tilesight.simulator.residency.residency import residency_of
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate_launches import simulate_launches
from tilesight.simulator.sm.from_code import class_costs
from tilesight.simulator.trace.cta.traced_kernel import CompiledKernel
from tilesight.simulator.trace.program.launch import launches_of, trace

import tilesight

DEVICE = tilesight.load_device("h200")
SECTOR_BYTES = 32


@dataclass(frozen=True)
class Case:
    """A schedule, a problem and options. Args: seqlen: of keys, and of queries where these are 0."""

    schedule: str
    seqlen: int = 1024
    causal: bool = False
    batch: int = 1
    head_dim: int = 64
    queries: int = 0
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        options = "".join(f"-{name}={value}" for name, value in self.options)
        return f"{self.schedule}-{self.seqlen}{'-causal' * self.causal}{options}"

    @property
    def problem(self) -> AttentionProblem:
        """Of 8 heads for each sequence, 4 of K and V."""
        return AttentionProblem(
            batch=self.batch,
            heads=8,
            kv_heads=4,
            seqlen_q=self.queries or self.seqlen,
            seqlen_k=self.seqlen,
            head_dim=self.head_dim,
            causal=self.causal,
        )


CASES = [
    Case("flash2_tma"),
    Case("flash2_tma", causal=True),
    Case("flash2_tma", seqlen=1000),
    Case("flash2_tma", options=(("persistent", 1),)),
    Case("flash2"),
    Case("flash2", causal=True),
    Case("flash2", seqlen=1000),
]


MANY_TILES = [
    Case("flash2_tma", batch=32, options=(("persistent", 1),)),
    Case("flash2", causal=True, batch=16, options=(("persistent", 2), ("cta_order", "head-fast"))),
    Case("flash2", causal=True, batch=16, options=(("persistent", 1), ("cta_order", "longest-first"))),
]
"""Persistent CTAs with 8 to 31 tiles each, under a causal mask with loops of other lengths for each."""


def pairs(case: Case) -> list[tuple[Launch, Launch, dict[str, str]]]:
    """For each launch its hand-written program, its traced one, and how the latter calls the former's tensors."""
    problem, schedule = case.problem, find_schedule(case.schedule)
    config = schedule.config(**{**schedule.in_triton, **dict(case.options)})
    written = schedule.launches(problem, config, DEVICE)
    every = {tensor.name: tensor for launch in written for tensor in launch.program.tensors}
    tensors = {name: allocate(tensor, torch.device("meta")) for name, tensor in every.items()}
    with tilesight.capture() as captured:
        for launch in written:
            twin = find_twin(launch)
            twin.function[launch.grid](**arguments_of(twin, launch, tensors))
    outcomes = compile_calls([lower(call, 90) for call in captured], DEVICE, workers=1)
    compiled = [outcome for outcome in outcomes if isinstance(outcome, CompiledKernel)]
    assert len(compiled) == len(written), outcomes
    traced = launches_of([trace(kernel, kept_of(kernel.resources, kernel.grid, DEVICE)) for kernel in compiled])
    return [
        (
            replace(launch, resources=kernel.resources),
            traced_launch,
            parameter_names(find_twin(launch), launch),
        )
        for launch, kernel, traced_launch in zip(written, compiled, traced, strict=True)
    ]


def sectors(launch: Launch, cta: int, names: dict[str, str]) -> dict[str, Counter[int]]:
    """`load Q` and the like -> sector of the tensor -> how often a CTA touches it. Args: names: of the tensors."""
    counts: dict[str, Counter[int]] = {}
    for item in range(cta, launch.program.item_count, launch.cta_count):
        for access in accesses(launch.program, item):
            tensor = launch.program.tensor(access.tensor)
            line = access.slab * tensor.rows + access.row + np.arange(access.rows)
            begin = line * tensor.pitch_bytes + access.col * tensor.element_bytes
            end = begin + access.cols * tensor.element_bytes - 1
            touched = {
                number
                for first, last in zip(begin // SECTOR_BYTES, end // SECTOR_BYTES, strict=True)
                for number in range(first, last + 1)
            }
            key = f"{access.kind} {names.get(access.tensor, access.tensor)}"
            counts.setdefault(key, Counter()).update(touched)
    return counts


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_traced_kernel_does_what_its_program_says(case: Case) -> None:
    """Bytes in every CTA, and cycles of every launch."""
    for written, traced, names in pairs(case):
        for cta in range(written.cta_count):
            assert sectors(traced, cta, {}) == sectors(written, cta, names), (written.name, cta)
        assert traced.program.item_count == written.cta_count
        by_hand, by_trace = (simulate_launches([launch], DEVICE).launches[0] for launch in (written, traced))
        assert by_hand.cost == by_trace.cost == "compiled"
        assert by_trace.traffic.smem_fill_bytes == by_hand.traffic.smem_fill_bytes
        assert by_trace.traffic.cycles == pytest.approx(by_hand.traffic.cycles, rel=0.01)


@pytest.mark.parametrize("case", MANY_TILES, ids=str)
def test_persistent_ctas_load_what_all_of_their_tiles_need(case: Case) -> None:
    """Bytes of every tensor; within a thousandth where each tile needs other keys, exactly where all are alike."""
    for written, traced, names in pairs(case):
        by_hand, by_trace = tally(written.program), tally(traced.program)
        for kind in ("load_bytes", "store_bytes"):
            expected = {names[tensor]: moved for tensor, moved in getattr(by_hand, kind).items()}
            within = 0.001 if case.causal else 0.0
            assert getattr(by_trace, kind) == pytest.approx(expected, rel=within)


@pytest.mark.parametrize("case", [MANY_TILES[0], replace(MANY_TILES[0], head_dim=128)], ids=["row", "half rows"])
def test_a_box_without_gaps_is_one_piece_where_boxes_are_listed(case: Case) -> None:
    """Not a piece for each of its rows: requests, and the memory for lists, are as many as boxes."""
    ((_, traced, _),) = pairs(case)
    tiles = [tile for step, _ in steps(traced.program.body) for tile in step.loads if tile.lists is not None]
    assert tiles
    assert sum(len(tile.lists.pieces) for tile in tiles) <= 32 * 8 * (1024 // 64) * (1 + 2 * 1024 // 64)


def test_l1_serves_a_part_of_what_an_iteration_stores_and_the_next_one_loads() -> None:
    """H100: of 16 KiB of O that come back behind 8 KiB of K and V, an L1 of 28 KiB serves some 60 %, not all."""
    tiles = (("block_m", 128), ("block_n", 32), ("num_warps", 8), ("num_stages", 2))
    ((written, traced, _),) = pairs(Case("flash1", queries=128, options=tiles))
    by_hand, by_trace = (simulate_launches([launch], DEVICE).launches[0].traffic for launch in (written, traced))
    assert by_trace.smem_fill_bytes == pytest.approx(by_hand.smem_fill_bytes, rel=0.02)


def test_a_step_that_copies_ahead_and_loads_waits_for_its_loads() -> None:
    """For O, then for L and MAX together; not for Q, which was copied an iteration ahead."""
    tiles = (("block_m", 64), ("block_n", 128), ("num_warps", 8), ("num_stages", 2))
    ((_, traced, _),) = pairs(Case("flash1", seqlen=512, head_dim=128, options=tiles))
    (costs,) = class_costs(traced, residency_of(traced, DEVICE), DEVICE)
    (both,) = (
        step for step, _ in steps(traced.program.body) if {"plain", "async"} <= {tile.path for tile in step.loads}
    )
    assert costs.steps[both.name].waits == 2
