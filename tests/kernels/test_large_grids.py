"""Grids of which a part is followed predict what grids do whose CTAs are all followed, in memory that does not grow."""

from itertools import permutations

import numpy as np
import pytest
from tilesight.kernels.launch.availability import missing_package

if missing_package() is None:
    import torch
    import triton
    import triton.language as tl
    from tilesight.kernels.capture.lowering import lower
    from tilesight.kernels.compile.calls import compile_calls
    from tilesight.simulator.launch.walk import steps, tally
    from tilesight.simulator.refusal import Refused
    from tilesight.simulator.residency.l1_room import kept_of
    from tilesight.simulator.simulate_launches import simulate_launches
    from tilesight.simulator.trace.cta.traced_kernel import CompiledKernel
    from tilesight.simulator.trace.program import continued, whole_grid
    from tilesight.simulator.trace.program.launch import launches_of, trace
    from tilesight.simulator.trace.touch import classes

    import tilesight

    DEVICE = tilesight.load_device("h200")

    @triton.jit
    def copy(x, y, n, BLOCK: tl.constexpr):
        i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)

    @triton.jit
    def transposed(x, y, rows, columns):
        i, j = tl.program_id(0), tl.program_id(1)
        tl.store(y + j * rows + i, tl.load(x + i * columns + j))

    @triton.jit
    def part(x, total, steps, number: tl.constexpr, BLOCK: tl.constexpr):
        for step in range(steps):
            total = total * number + tl.load(x + (number * steps + step) * BLOCK + tl.arange(0, BLOCK))
        return total

    @triton.jit
    def in_any_order(order, x, y, steps, BLOCK: tl.constexpr):
        cta, total = tl.program_id(0), tl.zeros((BLOCK,), tl.float32)
        x += cta * 4 * steps * BLOCK
        for place in range(4):
            which = tl.load(order + cta * 4 + place)
            if which < 2:
                if which < 1:
                    total = part(x, total, steps, 0, BLOCK)
                else:
                    total = part(x, tl.exp(total), steps, 1, BLOCK)
            else:
                if which < 3:
                    total = part(x, tl.sqrt(total), steps, 2, BLOCK)
                else:
                    total = part(x, 1 / total, steps, 3, BLOCK)
        tl.store(y + cta * BLOCK + tl.arange(0, BLOCK), total)

    @triton.jit
    def squares(x, y, BLOCK: tl.constexpr):
        cta = tl.program_id(0).to(tl.int64)
        i = cta * cta + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i))


pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))


@pytest.fixture(autouse=True)
def _small_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grids are large from 2,048 CTAs on."""
    if missing_package() is None:
        monkeypatch.setattr(continued, "FOLLOWED_ONE_BY_ONE", 2048)
        monkeypatch.setattr(continued, "BOX_CTAS", 512)
        monkeypatch.setattr(whole_grid, "MOST_FOLLOWED", 1 << 15)


def bytes_in(count: int) -> "torch.Tensor":
    """A tensor without data."""
    return torch.empty(count, device="meta", dtype=torch.int8)


def called(kernel, grid, *arguments, **constants) -> "CompiledKernel":
    """A launch, compiled."""
    with tilesight.capture() as launches:
        kernel[grid](*arguments, **constants)
    (outcome,) = compile_calls([lower(launches[0], 90)], DEVICE, workers=1)
    return outcome


def copied(ctas: int, length: int = 0) -> "CompiledKernel":
    """A copy by so many CTAs. Args: length: bytes, where they are fewer than the CTAs have room for."""
    count = length or ctas * 1024
    return called(copy, (ctas,), bytes_in(count), bytes_in(count), count, BLOCK=1024)


def transposed_by(rows: int, columns: int) -> "CompiledKernel":
    """A transposition, element by element."""
    tensors = (torch.empty(rows * columns, device="meta") for _ in range(2))
    return called(transposed, (rows, columns), *tensors, rows, columns)


def predicted(kernel: "CompiledKernel", follow):
    """What was followed, its figures, and where each CTA of the grid reads and writes. Args: follow: a door."""
    followed = follow(kernel, kept_of(kernel.resources, kernel.grid, DEVICE))
    (launch,) = launches_of([followed])
    columns = dict(zip(launch.program.variables, launch.program.items(np.arange(kernel.ctas)).T, strict=True))
    where = [
        launch.program.tensor(tile.tensor).pitch_bytes * sum(columns[name] * factor for name, factor in tile.row)
        + sum(columns[name] * factor for name, factor in tile.col)
        for step, _ in steps(launch.program.body)
        for tile in (*step.loads, *step.stores)
    ]
    return followed, simulate_launches([launch], DEVICE).launches[0], where


@pytest.mark.parametrize("grid", ["whole", "prime", "columns"])
def test_the_prediction_is_that_of_all_ctas(grid: str) -> None:
    """To the bit: traffic, instructions, and where each CTA of the grid reads and writes."""
    kernel = {"whole": lambda: copied(8192), "prime": lambda: copied(8191), "columns": lambda: transposed_by(256, 64)}[
        grid
    ]()
    part, by_part, where = predicted(kernel, whole_grid.trace_grid)
    every, by_all, there = predicted(kernel, trace)
    assert part.continued and not every.continued
    assert part.instructions == every.instructions
    assert by_part == by_all
    assert len(where) == len(there) > 1 and all(map(np.array_equal, where, there))


def test_what_is_kept_does_not_grow_with_the_grid() -> None:
    """Bytes of all arrays of CTAs, at grids of which one is 2,048 times as large."""
    sizes = []
    for ctas in (8192, 1 << 24):
        kernel = copied(ctas)
        traced = whole_grid.trace_grid(kernel, kept_of(kernel.resources, kernel.grid, DEVICE))
        kinds = [kind for path_class in traced.everywhere for kind in path_class.masked]
        arrays = [array for kind in kinds for array in (kind.members, *(use.base for use in kind.uses))]
        sizes.append(sum(array.nbytes for array in arrays))
    assert sizes[0] == sizes[1] < 1 << 20


@pytest.mark.parametrize("most", [64, 4])
def test_orders_of_the_same_blocks_become_classes_up_to_a_limit(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each CTA does the same four things, in one of 24 orders: a class for each would take minutes for thousands."""
    ctas, steps, block = 48, 5, 256
    monkeypatch.setattr(classes, "MOST_PATHS", most)
    order = [list(permutations(range(4)))[cta % 24] for cta in range(ctas)]
    table = torch.tensor(order, dtype=torch.int32, device="cpu").flatten()
    x, y = (torch.empty(count, device="meta") for count in (ctas * 4 * steps * block, ctas * block))
    kernel = called(in_any_order, (ctas,), table, x, y, steps, BLOCK=block)
    traced = trace(kernel, kept_of(kernel.resources, kernel.grid, DEVICE))
    assert len(traced.classes) == (24 if most == 64 else 8)
    assert any("too many ways through the code" in note for note in traced.notes) == (most == 4)
    totals = tally(launches_of([traced])[0].program)
    assert totals.load_bytes["x"] == 4 * x.numel() and totals.store_bytes["y"] == 4 * y.numel()


def test_a_grid_that_does_not_go_on_evenly_is_followed_one_by_one() -> None:
    """Squares of the CTA's number are no affine function of it."""
    kernel = called(squares, (4096,), *(bytes_in(4096 * 4096) for _ in range(2)), BLOCK=1024)
    assert whole_grid.trace_grid(kernel, kept_of(kernel.resources, kernel.grid, DEVICE)).continued is None


def test_a_grid_that_does_not_go_on_evenly_is_refused_where_it_is_too_large() -> None:
    """In one line that says what to do."""
    kernel = called(squares, (1 << 16,), *(bytes_in(1 << 33) for _ in range(2)), BLOCK=1024)
    with pytest.raises(Refused, match="65,536 CTAs, which do not go on as the first 512 do, are too many to follow"):
        whole_grid.trace_grid(kernel, kept_of(kernel.resources, kernel.grid, DEVICE))


def test_an_access_beyond_the_end_of_a_large_grid_is_refused() -> None:
    """That of the last CTA alone."""
    kernel = called(copy, (8192,), bytes_in(8192 * 1024 - 1), bytes_in(8192 * 1024), 8192 * 1024, BLOCK=1024)
    with pytest.raises(Refused, match="load reaches 1 B beyond tensor x"):
        whole_grid.trace_grid(kernel, kept_of(kernel.resources, kernel.grid, DEVICE))
