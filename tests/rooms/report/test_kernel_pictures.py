"""Every arrow and bar of a launch's pictures, held against its object in JSON."""

import re
from dataclasses import replace
from html import unescape

import pytest
from support.made_rows import prediction_of, row_of
from support.made_up import SOME_TRAFFIC, a_launch
from tilesight.simulator import units
from tilesight.simulator.display.render import RESOURCES
from tilesight.simulator.display.words import percent
from tilesight.simulator.prediction.ceiling import Ceiling
from tilesight.simulator.prediction.kernel_row import KernelRow
from tilesight.simulator.prediction.what_helps import dominating_lines, help_text
from tilesight.simulator.report.kernels.html import kernels_html
from tilesight.simulator.report.kernels.pictures import limit_bars
from tilesight.simulator.report.page import Made

MADE = Made(command="tilesight predict k.py:run --html k.html", version="1.2.3", date="2026-11-28T12:34:56+00:00")
CEILING = Ceiling(
    compulsory_read_bytes=3_000_000,
    compulsory_write_bytes=1_000_000,
    flop=2_000_000_000,
    hbm_bytes_per_s=5e9,
    l2_bytes_per_s=7e10,
    fabric_bytes_per_s=5e9,
    fill_bytes_per_s=9e10,
    smem_bytes_per_s=3e11,
    flop_per_s=3e12,
    tensors=(),
)
CAUSES = {"hbm": 0.8, "smem": 0.7, "fabric": 0.8, "l2": 0.3, "tail": 0.05, "launch": 0.05, "wait": 0.1}
ARROWS = {
    "from shared memory": ("smem_read_bytes", "smem_bytes_per_s"),
    "to it, copies too": ("smem_write_bytes", "smem_bytes_per_s"),
    "read from L2": ("l2_read_bytes", "l2_bytes_per_s"),
    "written to L2": ("l2_write_bytes", "l2_bytes_per_s"),
    "between the L2 partitions": ("fabric_bytes", "fabric_bytes_per_s"),
    "read from HBM": ("hbm_read_bytes", "hbm_bytes_per_s"),
    "written to HBM": ("hbm_write_bytes", "hbm_bytes_per_s"),
}
"""Label of an arrow -> bytes and peak in JSON."""


@pytest.fixture
def row() -> KernelRow:
    """A launch that is bound by the link between the L2 partitions and by L1, as gathers are."""
    prediction = replace(a_launch(traffic=SOME_TRAFFIC), causes=CAUSES, global_smem_fraction=0.6)
    return replace(row_of(1e-3), prediction=prediction, ceiling=CEILING)


def test_every_arrow_is_bytes_over_time_over_peak(row: KernelRow) -> None:
    """As JSON has all three; each arrow once, and none besides."""
    page, figures = unescape(kernels_html([prediction_of(row)], "k.py:run", MADE)), row.to_dict()
    drawn = {label: (moved, share) for label, moved, share in re.findall(
        r'data-tip="([^"\n]+)\nbytes: ([^"\n]+)\nof the peak: ([^"\n]+)"', page
    )}  # fmt: skip
    traffic, peaks = figures["traffic"], figures["peaks"]
    assert drawn == {
        label: (units.traffic(traffic[name]), percent(traffic[name] / traffic["time_s"] / peaks[peak]))
        for label, (name, peak) in ARROWS.items()
    }
    assert drawn["between the L2 partitions"][1] == "80 %" and drawn["read from L2"][1] == "29 %"


def test_every_bar_is_a_cause_of_the_json(row: KernelRow) -> None:
    """With its words, the largest first, below the roofline; and the page has no other."""
    page, figures = unescape(kernels_html([prediction_of(row)], "k.py:run", MADE)), row.to_dict()
    drawn = re.findall(r'data-tip="(\w+)\nof the time: ([^"\n]+)"', page)
    assert drawn == [(name, percent(share)) for name, share in sorted(CAUSES.items(), key=lambda item: -item[1])]
    assert figures["causes"] == CAUSES and figures["bottleneck"] == drawn[0][0]
    roofline, *bars = limit_bars(row)
    assert roofline.value == pytest.approx(figures["roofline_s"] / figures["traffic"]["time_s"])
    assert [bar.value for bar in bars] == [CAUSES[name] for name, _ in drawn]


def test_a_resource_has_one_name_on_a_page_and_in_the_table(row: KernelRow) -> None:
    """That of its cause in JSON: the words behind it are the same."""
    assert row.prediction
    (line, *_) = dominating_lines(replace(row.prediction, causes=CAUSES | {"smem": 0.9}), 1e-3, ())
    words = f"{RESOURCES['smem']}; 60 % of it for global memory"
    assert f"bound by smem 90 % ({words})" in line
    assert any(bar.text == f"smem 70 %: {words}" for bar in limit_bars(row))
    assert any(bar.text == f"fabric 80 %: {RESOURCES['fabric']}" for bar in limit_bars(row))


def test_gathers_are_not_called_trips_through_shared_memory(row: KernelRow) -> None:
    """Where accesses to global memory take most of the pipe of L1 and shared memory."""
    assert row.prediction
    bound = replace(row.prediction, causes=CAUSES | {"smem": 0.9})
    assert "access to global memory" in help_text(bound) and "60 %" in help_text(bound)
    assert "trips through shared memory" in help_text(replace(bound, global_smem_fraction=0.2))
