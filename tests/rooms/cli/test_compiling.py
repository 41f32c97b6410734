"""`compiler()`: what it refuses, and what it leaves to the library; no compiler is needed here."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Launch, Resources
from tilesight.simulator.library.keys import is_rough
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.resolve import launches_of
from tilesight.simulator.schedules.config import Config

import tilesight
from tilesight.compiling import compiler, only_missing

H200 = load_device("h200")
PROBLEM = AttentionProblem(batch=1, heads=2, seqlen_q=256, seqlen_k=256, head_dim=64)
ODD = AttentionProblem(batch=1, heads=2, seqlen_q=256, seqlen_k=256, head_dim=256)
"""Its kernels are not in the library."""
COMPILED = (Resources(registers_per_thread=99, smem_bytes_per_cta=4096, origin="compiled"),)


def test_it_is_a_public_name() -> None:
    """As the docs import it."""
    assert tilesight.compiler is compiler


def test_what_is_missing_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any work is done."""
    monkeypatch.setattr("tilesight.compiling.why_not", lambda: "torch is not installed: install it")
    with pytest.raises(RuntimeError, match=r"^torch is not installed: install it$"):
        compiler(PROBLEM)


def test_no_workers_and_unknown_devices_are_refused() -> None:
    """By name and value."""
    with pytest.raises(ValueError, match=r"^workers = 0: must be an integer of 1 or more$"):
        compiler(PROBLEM, workers=0)
    with pytest.raises(ValueError, match="h2000"):
        compiler(PROBLEM, "h2000")


def test_short_strips_of_scores_are_compiled_where_there_is_a_compiler() -> None:
    """A kernel with long strips stands for them in the library; it may spill where theirs does not."""
    short, long = (
        launches_of(replace(PROBLEM, batch=batch, seqlen_q=2048, seqlen_k=2048), "naive", Config(), H200)
        for batch in (1, 32)
    )
    assert is_rough(short[0]) and not any(map(is_rough, (*short[1:], *long)))
    assert only_missing(lambda pipelines: [COMPILED] * len(pipelines), H200)([short, long]) == [COMPILED, None]


def test_only_what_the_library_lacks_is_compiled() -> None:
    """In the order of what was asked; nothing at all where it holds everything."""
    kept = launches_of(PROBLEM, "flash2", Config(), H200)
    lacked = launches_of(ODD, "flash2", Config(block_m=64, block_n=32), H200)
    asked: list[tuple[Launch, ...]] = []

    def compile_(pipelines: Sequence[tuple[Launch, ...]]) -> list[tuple[Resources, ...]]:
        asked.extend(pipelines)
        return [COMPILED for _ in pipelines]

    resources_of = only_missing(compile_, H200)
    assert resources_of([kept, lacked, kept]) == [None, COMPILED, None]
    assert asked == [lacked]
    assert resources_of([kept]) == [None]
    assert asked == [lacked]
