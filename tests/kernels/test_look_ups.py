"""What L1 serves of what is loaded again: a table of 1 KiB, however many CTAs look there, and what a CTA has loaded."""

from dataclasses import replace
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

import tilesight

if missing_package() is None:
    import torch
    from tilesight.simulator.trace.cta.every_thread import every_access
    from tilesight.simulator.trace.touch.scattered import lists, sectors
    from zoo import indexed_rows, look_ups
    from zoo.cases import CASES
    from zoo.traced import traced

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))
CTAS, N, CODES, SMS = 4096, 256, 256, 132
TABLE_BYTES = 4 * CODES


def nearest(device: str):
    """A launch whose indices are computed from data that nobody gave."""
    x, codes, z = (torch.empty(size, device=device) for size in (CTAS * N, CODES, CTAS * N))
    return lambda: look_ups.nearest[(CTAS,)](x, codes, z, N=N, num_warps=2)


def test_each_sm_loads_a_table_once_for_indices_that_are_not_known() -> None:
    """Beside the data; and the prediction says that it does not know where in the table."""
    with tilesight.capture() as launches:
        nearest("meta")()
    (row,) = tilesight.predict(launches, device="h200").rows
    table_bytes = row.traffic.smem_fill_bytes - 4 * CTAS * N
    assert 0 < table_bytes <= SMS * TABLE_BYTES
    assert any("an address is computed from values; taken to lie anywhere in CODES" in note for note in row.notes)
    assert row.known_accesses < row.accesses


def test_a_second_look_up_hits_what_the_first_has_loaded() -> None:
    """Most of its sectors."""
    _, launch = traced(nearest)
    hits = launch.traced[0].in_l1
    assert hits and min(hits.values()) > 0.5


def test_each_sm_loads_a_table_once_where_indices_are_too_many_to_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One CTA stands for all: where in the table it looks, and not how far from there the others do."""
    monkeypatch.setattr(sectors, "MOST_SECTORS", 0)
    index = torch.randint(0, CODES, (CTAS * N,), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    with tilesight.capture() as launches:
        codes, z = (torch.empty(size, device="meta") for size in (CODES, CTAS * N))
        look_ups.dequantise[(CTAS,)](index, codes, z, N=N, num_warps=2)
    (row,) = tilesight.predict(launches, device="h200").rows
    assert row.traffic.smem_fill_bytes - CTAS * N <= SMS * TABLE_BYTES


@pytest.mark.parametrize(("cache", "loads"), [("", 1.5), (".cg", 2.0)])
def test_loads_past_l1_fetch_again_what_others_have_loaded(cache: str, loads: float) -> None:
    """Half of what a CTA loads second it has loaded first."""
    with tilesight.capture() as launches:
        x, z = torch.empty(CTAS * N + N // 2, device="meta"), torch.empty(CTAS * N, device="meta")
        look_ups.differences[(CTAS,)](x, z, N=N, CACHE=cache, num_warps=2)
    (row,) = tilesight.predict(launches, device="h200").rows
    assert row.traffic.smem_fill_bytes == 4 * CTAS * N * loads


def test_lists_that_will_be_too_long_are_given_up_after_two_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their length is foreseen from what the second one touches."""
    iterations: list[int] = []

    def watched(tracer: Any, group: Any, record: Any) -> None:
        def recorded(place: int, iteration: tuple[int, ...], *rest: Any) -> None:
            iterations.append(max(iteration, default=0))
            record(place, iteration, *rest)

        every_access(tracer, group, recorded)

    monkeypatch.setattr(sectors, "every_access", watched)
    traced.__wrapped__(CASES["gathered_product_of_many_ctas"])
    trips, followed = max(iterations) + 1, len(iterations)
    assert trips > 2
    iterations.clear()
    monkeypatch.setattr(sectors, "MOST_SECTORS", 1 << 10)
    monkeypatch.setattr(lists, "ATTEMPTS", 1)
    kernel, _ = traced.__wrapped__(CASES["gathered_product_of_many_ctas"])
    assert max(iterations) < 2
    assert len(iterations) < followed
    assert any("too many places to list" in note for note in kernel.notes)


def test_rows_that_are_too_many_to_be_listed_are_read_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 128 B in random order, each once: a few CTAs stand for all, in turn, and touch more than L2 holds."""
    rows, width, rows_per_cta = 1 << 17, 64, 64
    monkeypatch.setattr(sectors, "MOST_SECTORS", 1 << 18)
    monkeypatch.setattr(sectors, "ENOUGH_SECTORS", 1 << 17)
    ids = torch.randperm(rows, generator=torch.Generator().manual_seed(1))
    with tilesight.capture() as launches:
        table, z = (torch.empty(rows, width, dtype=torch.float16, device="meta") for _ in "wz")
        indexed_rows.embedding_rows[(rows // rows_per_cta,)](ids, table, z, rows, D=width, R=rows_per_cta)
    device = replace(load_device("h200"), l2_bytes=1 << 20)
    (row,) = tilesight.predict(launches, device=device).rows
    assert row.traffic.hbm_read_bytes == pytest.approx(rows * (2 * width + 8), rel=0.01)
    assert any("CTAs stand for those of all 2,048, in turn" in note for note in row.notes)
