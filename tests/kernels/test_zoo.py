"""Foreign kernels of many kinds, traced from their machine code, touch what Triton's interpreter says they touch."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package

if missing_package() is None:
    from tilesight.simulator.launch.program import Launch, Loop, Step, Tile
    from tilesight.simulator.launch.walk import executions, steps
    from tilesight.simulator.residency.residency import residency_of
    from tilesight.simulator.sm import from_code, l1_hits
    from zoo.arguments import case_of, half, whole
    from zoo.cases import CASES
    from zoo.lengths import tiles_of_sequences
    from zoo.traced import DEVICE, sectors, traced
else:
    CASES = {}

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))
ZOO = Path(__file__).parent / "zoo"
Touched = dict[str, dict[str, list[int]]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Touched]:
    """What all cases touch in the interpreter, which needs a process of its own."""
    file = tmp_path_factory.mktemp("zoo") / "recorded.json"
    command = [sys.executable, "-P", str(ZOO / "record.py"), str(file)]
    subprocess.run(command, env=os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}, check=True)
    touched_by_cta: dict[str, Touched] = json.loads(file.read_text(encoding="utf-8"))
    return touched_by_cta


def as_stores(touched: Touched) -> Touched:
    """Atomics count as stores: they go to L2, and nothing comes back that anybody waits for."""
    stores: Touched = {}
    for cta, kinds in touched.items():
        by_key = stores.setdefault(cta, {})
        for key, numbers in kinds.items():
            kind, name = key.split(" ", 1)
            renamed = f"{'store' if kind == 'atomic' else kind} {name}"
            by_key[renamed] = sorted({*by_key.get(renamed, []), *numbers})
    return stores


@pytest.mark.parametrize("name", CASES)
def test_a_traced_program_touches_what_the_interpreter_touches(name: str, recorded: dict[str, Touched]) -> None:
    """Sector by sector, CTA by CTA."""
    kernel, launch = traced(CASES[name])
    assert sectors(launch) == as_stores(recorded[name])
    assert kernel.known == kernel.accesses > 0
    assert [note for note in kernel.notes if "the compiler does not know these multiples" not in note] == []


@pytest.mark.parametrize(
    ("lengths", "rows"),
    [
        ([9, 1, 5, 3, 2, 11, 9, 4, 7, 1, 12, 3, 8, 6, 2, 5, 10], 4),
        ([1, 5, 1, 12, 2, 11, 9], 4),
        ([1, 2, 3, 2, 1], 4),
        ([2, 3, 6, 7], 8),
    ],
)
def test_a_tile_of_rows_is_found_by_a_search_in_every_cta(lengths: list[int], rows: int) -> None:
    """As vLLM's attention finds its own: each CTA moves the rows left of its sequence; warps beyond them exit."""
    row_sectors = 4
    offsets = [sum(lengths[:number]) for number in range(len(lengths) + 1)]
    ctas = offsets[-1] // rows + len(lengths)
    left = dict.fromkeys(range(ctas), 0)
    for number, (begin, length) in enumerate(zip(offsets, lengths, strict=False)):
        for tile in range(-(-length // rows)):
            left[begin // rows + number + tile] = min(rows, length - tile * rows)
    x, z = half(offsets[-1], 64), half(offsets[-1], 64)
    case = case_of(tiles_of_sequences, (ctas,), whole(offsets), x, z, len(lengths), D=64, R=rows)
    kernel, launch = traced(case)
    moved = sectors(launch)
    assert [len(moved[f"{cta},0,0"].get("load X", ())) for cta in left] == [row_sectors * left[cta] for cta in left]
    assert kernel.known == kernel.accesses > 0


def test_what_an_atomic_gives_back_is_waited_for_where_the_code_waits() -> None:
    """Both additions of a split product, each a step that brings the sums before and stores there."""
    _, launch = traced(CASES["gemm_split"])
    adding = [step for step, _ in steps(launch.program.body) if any(tile.path == "atomic" for tile in step.loads)]
    assert len(adding) == 2
    assert all(step.loads == step.stores for step in adding)


def test_what_the_cta_before_has_loaded_is_looked_for_in_all_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the guards of classes a CTA would load with numbers of a class that it is not of."""
    _, launch = traced(CASES["two_in_one"])
    looked_at, served_by_l1 = [], l1_hits.served_by_l1
    monkeypatch.setattr(l1_hits, "served_by_l1", lambda of, *rest: (looked_at.append(of), served_by_l1(of, *rest))[1])
    from_code.class_costs(launch, residency_of(launch, DEVICE), DEVICE)
    assert len(looked_at) == 2
    for of in looked_at:
        for cta in range(launch.cta_count):
            assert list(executions(of.program, cta)) == list(executions(launch.program, cta))


def changed(launch: "Launch", how: Any) -> "Launch":
    """The launch with every step and loop passed through a function."""

    def walk(body: Any) -> Any:
        return tuple(how(replace(node, body=walk(node.body)) if isinstance(node, Loop) else node) for node in body)

    return replace(launch, program=replace(launch.program, body=walk(launch.program.body)))


def stride(node: Any) -> Any:
    """A mutant: what loops add to a tile's column is a sector too much."""

    def of(tile: "Tile") -> "Tile":
        col = tuple((name, coefficient + 32 * name.startswith("i")) for name, coefficient in tile.col)
        return replace(tile, col=col)

    return replace(node, loads=tuple(map(of, node.loads))) if isinstance(node, Step) else node


def tail(node: Any) -> Any:
    """A mutant: stores miss the last row."""

    def of(tile: "Tile") -> "Tile":
        return replace(tile, rows=tile.rows - 1)

    return replace(node, stores=tuple(map(of, node.stores))) if isinstance(node, Step) else node


def trip(node: Any) -> Any:
    """A mutant: loops run once less."""
    return replace(node, trips=node.trips - 1) if isinstance(node, Loop) and isinstance(node.trips, int) else node


@pytest.mark.parametrize("mutant", [stride, tail, trip])
def test_a_wrong_program_is_caught(mutant: Any, recorded: dict[str, Touched]) -> None:
    """A wrong stride, a missed row, a wrong number of iterations."""
    _, launch = traced(CASES["gemm"])
    assert sectors(changed(launch, mutant)) != as_stores(recorded["gemm"])
