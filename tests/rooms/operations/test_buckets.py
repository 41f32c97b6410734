"""Buckets of decoding: what is padded to which, and what that costs, against steps whose times are sums."""

import pytest
from support.steps import H200, kernel, matmul, profiled
from tilesight.simulator.operations.gaps import host_s
from tilesight.simulator.operations.profile import Profile
from tilesight.simulator.report.operations.buckets import Size, buckets_of, buckets_text, least_above


def _run(size: Size) -> Profile:
    """A microsecond for each sequence, and one for each 1,000 tokens that it holds."""
    return profiled([matmul(1, 64, 64)], [[kernel(1e-6 * size.batch * (1 + size.held / 1000))]])


@pytest.mark.parametrize(
    ("before", "bucket", "least"),
    [
        (Size(batch=4, held=1000), Size(batch=8, held=1000), Size(batch=5, held=1000)),
        (Size(batch=4, held=1000), Size(batch=4, held=2000), Size(batch=4, held=1001)),
        (Size(batch=1, held=1000), Size(batch=2, held=1000), None),
        (Size(batch=4, held=1000), Size(batch=8, held=2000), None),
    ],
)
def test_just_above_one_bucket_is_padded_to_the_next(before: Size, bucket: Size, least: Size | None) -> None:
    """In sequences or in tokens held; between neighbours there is nothing to pad, and two changes say none."""
    assert least_above(before, bucket) == least


def test_padding_costs_what_the_bucket_takes_more_and_a_graph_saves_the_host() -> None:
    """Five sequences in a bucket of eight take three more; one operation of the host's is saved."""
    first, second = buckets_of([Size(batch=4, held=1000), Size(batch=8, held=1000)], _run)
    assert first.padding_s is None and second.padding_s == pytest.approx(6e-6)
    assert first.saved_s == pytest.approx(host_s("eager", H200))
    assert second.to_dict()["graph_s"] == pytest.approx(16e-6) and second.to_dict()["padded_from"] == "5x1000"
    lines = [line.split() for line in buckets_text([first, second], 120).splitlines()]
    shown = "8x1000 27.0 us 16.0 us 11.0 us, 41 % 2.00 us 5x1000 6.00 us, 60 %"
    assert " ".join(lines[-1]) == shown


def test_a_bucket_that_does_not_fit_says_so() -> None:
    """In a column that is not there otherwise."""

    def run(size: Size) -> Profile:
        return profiled([matmul(1, 64, 64)], [[kernel(1e-6)]], peak_bytes=size.batch * H200.hbm_bytes * 2 // 3)

    text = buckets_text(buckets_of([Size(batch=1, held=8), Size(batch=2, held=8)], run), 120)
    assert [line.split()[-1] for line in text.splitlines()[1:] if "x" in line] == ["yes", "no"]
