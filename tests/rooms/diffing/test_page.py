"""The page of a difference: every launch once, both sides beside each other, and nothing loaded from elsewhere."""

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_rows import row_of
from tilesight.simulator import units
from tilesight.simulator.prediction.bottleneck import LAUNCH, TAIL, causes_of
from tilesight.simulator.prediction.ceiling import Ceiling
from tilesight.simulator.prediction.kernel_row import KernelRow
from tilesight.simulator.report.page import Made

from tilesight.diffing.difference import Difference
from tilesight.diffing.report.html import MOST_PICTURED, difference_html
from tilesight.diffing.report.launch import beside, parts_of
from tilesight.diffing.side import LaunchSide, Side, SourceLine

MADE = Made(command="tilesight diff a 'b <&>'", version="1.2.3", date="2026-11-27T12:34:56+00:00")
TEXTS = st.sampled_from(("x = 1", "x = 2", "x = 10", "y", "", "return y"))
CEILING = Ceiling(
    compulsory_read_bytes=1 << 20,
    compulsory_write_bytes=0,
    flop=1 << 30,
    hbm_bytes_per_s=4e12,
    l2_bytes_per_s=8e12,
    fabric_bytes_per_s=2e12,
    fill_bytes_per_s=8e12,
    smem_bytes_per_s=3e13,
    flop_per_s=1e15,
    tensors=(),
)


def line(number: int, text: str, time_fraction: float | None = 0.5, **executed: int) -> SourceLine:
    """A line of source."""
    return SourceLine(file="k.py", number=number, text=text, executed=executed, time_fraction=time_fraction)


def launch(name: str, code: str, *lines: SourceLine, time_s: float = 1e-3, read_bytes: int = 1 << 20) -> LaunchSide:
    """A launch of a side, with all that the page needs."""
    row: KernelRow = row_of(time_s, name=name)
    assert row.prediction
    read = {"hbm_read_bytes": read_bytes, "l2_read_bytes": read_bytes}
    traffic = replace(row.prediction.traffic, **read, matmul_flop=CEILING.flop)
    row = replace(row, prediction=replace(row.prediction, traffic=traffic), ceiling=CEILING)
    return LaunchSide(row=row, shape="s", code=code, lines=lines)


def side(name: str, *launches: LaunchSide) -> Side:
    """A side that was predicted."""
    code = "+".join(item.code for item in launches)
    return Side(name=name, device="h200", l2="cold", timing="single", launches=launches, code=code, predicted=True)


@pytest.fixture(scope="module")
def difference() -> Difference:
    """One launch of the same code, one that was edited, one that is gone, and one that has none but a new side."""
    old = [line(1, "x = 1", FADD=4), line(2, "y = x", FMUL=4), line(3, "z = y", STG=1)]
    new = [line(1, "x = 1", FADD=4), line(2, "y = <x>", FMUL=8), line(4, "  z = y", STG=1), line(5, "w = z", STG=1)]
    return Difference(
        side("old.py:run", launch("alike", "a"), launch("edited", "b", *old), launch("first", "c")),
        side(
            "new.py:run",
            launch("alike", "a"),
            launch("edited", "d", *new, time_s=2e-3, read_bytes=3 << 20),
            launch("last", "e"),
        ),
    )


@pytest.fixture(scope="module")
def page(difference: Difference) -> str:
    """Its page."""
    return difference_html(difference, MADE)


class Tags(HTMLParser):
    """Collects ids, and what a page would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One tag."""
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]


def test_every_launch_stands_on_the_page_once(page: str) -> None:
    """That of the same code folded, and without pictures; one that a side lacks with those of the other."""
    ids = Tags(page).ids
    assert len(ids) == len(set(ids))
    assert sorted(name for name in ids if re.fullmatch(r"launch-\d+", name)) == [f"launch-{n}" for n in (1, 2, 3, 4)]
    folded = page[page.index("<details><summary><h3>1 launch of the same code") :]
    assert 'id="launch-1"' in folded and "alike" in folded
    memories = sorted(name for name in ids if re.fullmatch(r"memory-\d-\w+", name))
    assert memories == ["memory-2-new", "memory-2-old", "memory-3-old", "memory-4-new"]
    assert [name for name in ids if re.fullmatch(r"roofline-2(-old|-new)?", name)] == ["roofline-2"], "with an arrow"


def test_verdict_and_band_come_first(difference: Difference, page: str) -> None:
    """Above the table of launches, which is above what differs; the page is the same every time, and opens offline."""
    change = difference.change
    assert change
    places = [page.index(text) for text in (f"({change.ratio:.2f}x; between", ">between<", 'id="launch-2"', "<footer>")]
    assert places == sorted(places)
    assert Tags(page).links == [] and page == difference_html(difference, MADE)


def test_bytes_of_both_sides_are_drawn(page: str) -> None:
    """At the same place of both pictures, each with its own."""
    for name, read_bytes in (("old", 1 << 20), ("new", 3 << 20)):
        picture = unescape(page[page.index(f'id="memory-2-{name}"') :].partition("</svg>")[0])
        assert f"read from HBM\nbytes: {units.traffic(read_bytes)}" in picture


def test_lines_that_changed_are_marked(page: str) -> None:
    """Edited ones on both sides, moved ones on none, and counts where they differ; text is shown as it is."""
    assert page.count(">~ 2<") == 2 and page.count(">+ 5<") == 1 and page.count(">− ") == 0
    assert page.count('<tr class="filler">') == 1 and "y = &lt;x&gt;" in page
    assert page.count("executed, before to after\nFMUL: 4 to 8") == 2 and '<td class="more" data-tip' in page


@given(st.lists(TEXTS, max_size=8), st.lists(TEXTS, max_size=8))
def test_every_line_of_both_sides_stands_beside_once(old: list[str], new: list[str]) -> None:
    """In order; two that answer each other need not have the same text."""
    sides = [[line(number, text) for number, text in enumerate(texts)] for texts in (old, new)]
    pairs = beside(*sides)
    assert [[pair[place] for pair in pairs if pair[place]] for place in (0, 1)] == sides
    if old == new:
        assert all(pair[0] == pair[1] for pair in pairs)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.5), st.floats(0, 0.4))
def test_parts_add_up_to_the_time(hbm: float, smem: float, tail: float, start: float) -> None:
    """The busiest resource, the tail and the launch, and the rest is waiting; what is busy in the tail counts once."""
    causes = causes_of({"hbm": hbm, "smem": smem, TAIL: tail, LAUNCH: start}, 1.0)
    prediction = row_of(1.0).prediction
    assert prediction
    parts = dict(parts_of(replace(prediction, causes=causes)))
    assert sum(parts.values()) == pytest.approx(1.0, abs=0.021)
    assert {"hbm", "smem"} & set(parts) <= {"hbm" if hbm >= smem else "smem"}


def test_what_a_side_lacks_is_told() -> None:
    """A file without peaks or times of lines; and of many launches the longest have pictures."""
    bare = replace(launch("k", "a", line(1, "x", None, FADD=1)), row=row_of(1e-3))
    page = difference_html(Difference(side("kept.json", bare), side("b", launch("k", "c"))), MADE)
    assert "Before: kept.json: no picture, as its file holds no peaks." in page and 'id="memory-1-new"' in page
    assert "Before: kept.json: not shaded, as nobody knows the time at its lines." in page
    assert "After: b: no source, as nobody knows how often its instructions run." in page
    count = MOST_PICTURED + 1
    many = [[launch(f"k{n}", f"{name}{n}", time_s=1e-3 / (n + 1)) for n in range(count)] for name in "ab"]
    ids = Tags(difference_html(Difference(side("a", *many[0]), side("b", *many[1])), MADE)).ids
    pictured = [name for name in ids if re.fullmatch(r"time-\d+", name)]
    assert pictured == [f"time-{n + 1}" for n in range(MOST_PICTURED)] and f"launch-{count}" in ids


def test_the_same_code_has_no_pictures() -> None:
    """And says so where the verdict stands."""
    same = side("a", launch("k", "a"))
    page = difference_html(Difference(same, replace(same, name="b")), MADE)
    assert "<h2>Same code, 1 launch: nothing changes</h2>" in page and "<svg" not in page
