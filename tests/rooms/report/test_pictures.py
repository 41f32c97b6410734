"""Pictures and the HTML page: whole, the same every time, and complete without a network."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from matplotlib.figure import Figure
from support.made_up import A_PROBLEM, a_launch, a_prediction
from support.strategies import TOY
from tilesight.simulator import units
from tilesight.simulator.display.columns import rate_text
from tilesight.simulator.display.render import bound_text, config_text
from tilesight.simulator.explore.candidate import Candidate
from tilesight.simulator.explore.explore import Exploration, explore
from tilesight.simulator.explore.lengths import compare
from tilesight.simulator.explore.ranking import band_text
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.report.figures import draw_roofline
from tilesight.simulator.report.html import explore_html
from tilesight.simulator.report.page import Made
from tilesight.simulator.report.png import compare_png, explore_png
from tilesight.simulator.report.series import best_of_each, bytes_per_level, heat_maps
from tilesight.simulator.schedules.config import Config

SMALL = AttentionProblem(batch=1, heads=2, seqlen_q=200, seqlen_k=200, head_dim=128)
MADE = Made(command="tilesight explore --set 'a=<b>'", version="1.2.3", date="2026-11-23T12:34:56+00:00")
MOST_BYTES = 2_500_000
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def explored() -> Exploration:
    """Block sizes of two schedules, some of which do not fit."""
    return explore(SMALL, schedule=("flash2", "naive"), device=TOY, num_warps=4, num_stages=4)


@pytest.fixture(scope="module")
def nowhere() -> Exploration:
    """What fits nowhere."""
    return explore(SMALL, device=TOY, smem_bytes=1 << 30)


@pytest.fixture(scope="module")
def page(explored: Exploration) -> str:
    """The page of that exploration."""
    return explore_html(replace(explored, device=replace(TOY, name="toy <b>&")), MADE)


def test_a_heat_map_shows_the_best_over_all_other_options() -> None:
    """The fastest of each pair of block sizes."""
    exploration = explore(SMALL, device=TOY, block_m=(32, 64), block_n=(32, 64), num_warps=4)
    (heat_map,) = heat_maps(exploration)
    for row, block_m in zip(heat_map.times_s, heat_map.block_m, strict=True):
        for shown, block_n in zip(row, heat_map.block_n, strict=True):
            times = [
                item.costs[0]
                for item in exploration.ranked
                if (item.config.block_m, item.config.block_n) == (block_m, block_n)
            ]
            assert shown == (min(times) if times else None)


def test_cells_whose_best_spills_are_marked() -> None:
    """In the picture; the page has a column."""
    config = Config(block_m=64, block_n=64)
    candidates = [
        Candidate(
            schedule="flash2",
            config=config.but(block_n=block_n),
            options=("block_m", "block_n"),
            prediction=a_prediction(a_launch(spilled_bytes=spilled)),
        )
        for block_n, spilled in ((64, 0), (128, 64))
    ]
    exploration = Exploration(
        problem=A_PROBLEM, device=TOY, device_name="toy", candidates=tuple(candidates), baseline=None, left_out={}
    )
    (heat_map,) = heat_maps(exploration)
    assert [heat_map.spills(0, column) for column in range(2)] == [False, True]
    assert heat_map.any_spills
    assert explore_png(exploration) != explore_png(
        replace(exploration, candidates=(candidates[0], replace(candidates[0], config=candidates[1].config)))
    )
    assert ">spill<" in explore_html(exploration, MADE)
    assert ">64 B<" in explore_html(exploration, MADE)


def test_a_pair_that_does_not_fit_has_no_time(explored: Exploration) -> None:
    """Though it has a cell."""
    flash2 = next(heat_map for heat_map in heat_maps(explored) if heat_map.schedule == "flash2")
    assert flash2.times_s[-1][-1] is None
    assert flash2.times_s[0][0] is not None


def test_a_pair_that_no_time_was_left_for_is_not_said_to_fit_nowhere(explored: Exploration) -> None:
    """On the page, in its head, its map and what a cell tells."""
    *others, last = [item for item in explored.candidates if item.schedule == "flash2" and item.fits]
    late = replace(last, prediction=None, reason="no time was left", kind="takes too long")
    page = explore_html(replace(explored, candidates=(*others, late)), MADE)
    assert f"{len(others)} predicted in time, 1 not" in page
    assert ">no time<" in page and "no fit" not in page


def test_one_pair_of_block_sizes_is_no_map() -> None:
    """There is nothing to compare."""
    assert heat_maps(explore(SMALL, device=TOY, block_m=32, block_n=32)) == []


def test_naive_stands_beside_the_explored_schedules() -> None:
    """As the baseline, where it was not explored itself."""
    exploration = explore(SMALL, device=TOY, block_m=32, block_n=32)
    assert set(best_of_each(exploration)) == {"naive", "flash2"}


def test_bars_hold_the_bytes_of_each_level(explored: Exploration) -> None:
    """As predicted, in the order from the SMs outwards."""
    total = best_of_each(explored)["flash2"].total
    assert bytes_per_level(total)["into the SMs"] == total.smem_fill_bytes
    assert bytes_per_level(total)["read from HBM"] == total.hbm_read_bytes


def test_the_roof_is_higher_at_the_boost_clock(explored: Exploration) -> None:
    """In proportion to the clock."""
    ax = Figure().subplots()
    draw_roofline(ax, {}, replace(explored, device=replace(TOY, tensor_clock_hz=8e8, mixed_clock_hz=8e8)))
    roof, sustained = (line.get_ydata()[-1] for line in ax.lines)
    assert sustained == pytest.approx(0.8 * roof)


def test_pictures_are_png_and_the_same_every_time(explored: Exploration) -> None:
    """Byte for byte."""
    first = explore_png(explored)
    assert first.startswith(PNG)
    assert first == explore_png(explored)


def test_a_picture_of_nothing_that_fits_is_still_one(nowhere: Exploration) -> None:
    """The file that was asked for is there."""
    assert explore_png(nowhere).startswith(PNG)


def test_a_picture_of_lengths_survives_out_of_memory() -> None:
    """Points without a time are left out."""
    pinned = {"block_m": 64, "block_n": 64, "num_warps": 4, "num_stages": 2}
    scaling = compare(SMALL, (128, 1 << 20), schedule="naive", device=TOY, **pinned)
    assert [point.prediction is None for point in scaling.points] == [False, True]
    assert compare_png(scaling).startswith(PNG)


def test_a_type_that_the_device_cannot_compute_still_has_page_and_picture() -> None:
    """Though there is no roof to draw."""
    exploration = explore(replace(SMALL, dtype="fp8"), device=TOY)
    assert not exploration.ranked
    assert "Nothing fits" in explore_html(exploration, MADE)
    assert explore_png(exploration).startswith(PNG)


class _Links(HTMLParser):
    """Collects what a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]


def test_the_page_loads_nothing(page: str) -> None:
    """It opens offline."""
    parser = _Links()
    parser.feed(page)
    assert parser.links == []
    assert "@import" not in page.split("<script>")[0]


def test_the_page_is_the_same_every_time(explored: Exploration) -> None:
    """Byte for byte."""
    assert explore_html(explored, MADE) == explore_html(explored, MADE)


def test_the_page_has_a_row_for_every_candidate(explored: Exploration, page: str) -> None:
    """With a cell for every column."""
    body = page[page.index("<tbody>") : page.index("</tbody>")]
    assert body.count("<tr") == len(explored.candidates)
    cells = {row.count("<td") for row in body.split("<tr")[1:]}
    assert cells == {page[page.index("<thead>") : page.index("</thead>")].count("<th ")}


def test_a_large_page_is_small(explored: Exploration) -> None:
    """A thousand configurations in less than 2.5 MB, pictures included."""
    many = explored.candidates * (1000 // len(explored.candidates) + 1)
    assert len(explore_html(replace(explored, candidates=many), MADE).encode()) < MOST_BYTES


def test_the_table_says_what_the_terminal_says(explored: Exploration, page: str) -> None:
    """Rate, factor, band, spills and the bottleneck with its share, of the best."""
    first = page[page.index("<tbody>") :].split("<tr")[1]
    best = explored.ranked[0]
    assert best.prediction
    total = best.prediction.total
    for text in (
        units.duration(total.time_s),
        "1.00x",
        band_text(best),
        rate_text(total.matmul_flop_per_s),
        f"{best.prediction.spilled_bytes_per_thread} B",
        bound_text(best.prediction),
    ):
        assert f">{text}</td>" in first
    assert "Pareto-optimal" in page


def test_the_page_says_what_made_it(explored: Exploration, page: str) -> None:
    """Command, version, date, device, and where the cycles come from."""
    foot = page[page.index("<footer>") :]
    for name, text in (
        ("command", "<code>tilesight explore --set &#x27;a=&lt;b&gt;&#x27;</code>"),
        ("device", "toy (toy &lt;b&gt;&amp;)"),
        ("version", "Tilesight 1.2.3"),
        ("date", MADE.date),
    ):
        assert f"<dt>{name}</dt><dd>{text}</dd>" in foot
    kinds = {launch.cost.split(":")[0] for item in explored.ranked for launch in item.prediction.launches}  # type: ignore[union-attr]
    (sources,) = re.findall(r"<dt>cycles from</dt><dd>([^<]*)</dd>", foot)
    assert ("estimates from tiles" in sources, "machine code" in sources) == ("tiles" in kinds, "compiled" in kinds)
    assert f" of {len(explored.ranked)})" in sources


def test_every_mark_of_a_picture_tells_what_it_is(explored: Exploration, page: str) -> None:
    """Each cell of the heat maps, each bar, each configuration of the roofline."""
    tips = re.findall(r'data-tip="([^"]*)"', page)
    roofline = page[page.index('<div class="picture" id="roofline">') :]
    points = re.findall(r'data-tip="([^"]*)"', roofline)
    assert len(points) == len(explored.ranked) + len(best_of_each(explored))
    cells = sum(len(heat_map.block_m) * len(heat_map.block_n) for heat_map in heat_maps(explored))
    bars = len(best_of_each(explored)) * 5
    assert len(tips) == cells + bars + len(points)
    best = explored.ranked[0]
    assert any(tip.startswith(f"{best.schedule} {config_text(best.config_dict())}") for tip in points)


def test_no_two_things_of_a_page_have_the_same_id(page: str) -> None:
    """And what a picture refers to is on the page."""
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', page)) <= set(ids)


def test_the_colours_of_a_picture_follow_the_page(page: str) -> None:
    """Its ink is that of the text, also in the dark."""
    picture = page[page.index('<div class="picture" id="levels">') :].split("</svg>")[0]
    assert "var(--ink)" in picture
    assert "#222222" not in picture
    assert "prefers-color-scheme: dark" in page


def test_the_page_has_the_notes_of_the_run(explored: Exploration) -> None:
    """Under the table, as in the terminal."""
    page = explore_html(replace(explored, notes=("what <to> know",)), MADE)
    assert "<li>what &lt;to&gt; know</li>" in page[page.index("</tbody>") :]


def test_the_page_counts_what_was_left_out(page: str) -> None:
    """Below the table."""
    assert "configurations do not fit" in page[page.index("</tbody>") :]


def test_text_from_a_device_file_is_escaped(page: str) -> None:
    """Whatever it contains."""
    without_code = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert "toy &lt;b&gt;&amp;" in without_code
    assert "toy <b>" not in without_code


def test_a_page_of_nothing_that_fits_says_so(nowhere: Exploration) -> None:
    """In its heading."""
    assert "Nothing fits" in explore_html(nowhere, MADE)


def test_a_name_of_a_device_is_drawn_and_written_as_it_is(explored: Exploration) -> None:
    """Dollar signs are no formula, and angle brackets no tag."""
    odd = "<b>&amp; $\\frac{$ [red]x[/red]"
    named = replace(explored, device=replace(explored.device, name=odd), device_name=f"{odd}.toml")
    assert explore_png(named) != explore_png(explored)
    page = explore_html(named, MADE)
    assert "<b>&amp; $" not in page
    assert "&lt;b&gt;&amp;amp; $\\frac{$ [red]x[/red]" in page
