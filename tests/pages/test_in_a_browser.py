"""Every kind of page in a real browser: no error, nothing from elsewhere, marks that tell, tables that sort."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import pytest
from support.browser import CHROMIUM, Page, chromium, opened
from support.made_rows import row_of
from support.made_up import SOME_TRAFFIC, a_launch
from support.made_up_measurements import a_point, a_validation, compared, some_points
from support.strategies import TOY
from tilesight.simulator.explore.explore import explore
from tilesight.simulator.prediction.ceiling import Ceiling
from tilesight.simulator.prediction.kernel_row import KernelRow, SourceTime
from tilesight.simulator.prediction.kernels import KernelsPrediction
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.report.html import explore_html
from tilesight.simulator.report.kernels.html import kernels_html
from tilesight.simulator.report.page import Made
from tilesight.validate.report.html import validate_html

from tilesight.diffing.difference import Difference
from tilesight.diffing.report.html import difference_html
from tilesight.diffing.side import LaunchSide, Side, SourceLine
from tilesight.tuning.html import tuning_html
from tilesight.tuning.tuning import Configured, TunedLaunch, Tuning, ranked

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to open pages with")

MADE = Made(command="tilesight predict k.py:run", version="1.2.3", date="2026-11-28T12:34:56+00:00")
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


def a_row(time_s: float = 1e-3) -> KernelRow:
    """A launch with all that pages show."""
    prediction = replace(a_launch(time_s=time_s, traffic=SOME_TRAFFIC), causes=CAUSES, global_smem_fraction=0.6)
    return replace(row_of(time_s), prediction=prediction, ceiling=CEILING)


def explore_page() -> str:
    """Block sizes of two schedules, some of which do not fit."""
    small = AttentionProblem(batch=1, heads=2, seqlen_q=200, seqlen_k=200, head_dim=128)
    return explore_html(explore(small, schedule=("flash2", "naive"), device=TOY, num_warps=4, num_stages=4), MADE)


def predict_page() -> str:
    """Two launches, one with lines of source."""
    lines = tuple(
        SourceTime(file=__file__, number=number, time_fraction=0.25, awaited_fraction=0.2, reason="scoreboard")
        for number in (3, 5, 6)
    )
    rows = (a_row(), replace(a_row(2e-4), name="second"))
    return kernels_html([KernelsPrediction(device="h200", l2="cold", rows=rows, sources=((0, lines),))], "k:run", MADE)


def diff_page() -> str:
    """A launch that became faster."""
    sides = []
    for name, time_s in (("old.py:run", 1e-3), ("new.py:run", 8e-4)):
        lines = [
            SourceLine(file="k.py", number=n, text=f"x = {n * time_s}", executed={"FMUL": n}, time_fraction=0.4)
            for n in (1, 2)
        ]
        launch = LaunchSide(row=a_row(time_s), shape="s", code=name, lines=tuple(lines))
        sides.append(
            Side(name=name, device="h200", l2="cold", timing="single", launches=(launch,), code=name, predicted=True)
        )
    return difference_html(Difference(*sides), MADE)


def tune_page() -> str:
    """Six configurations."""
    configured = [
        Configured(values={"BM": block_m, "BN": block_n}, row=row_of(1e-5 * (1 + 64 / block_m + 32 / block_n)))
        for block_m, block_n in product((64, 128, 256), (64, 128))
    ]
    launch = TunedLaunch(kernel="k", shape={}, key={}, configured=ranked(configured), default=configured[0].values)
    return tuning_html(Tuning(target="t", device="h200", launches=(launch,)), MADE)


def validate_page() -> str:
    """Two measured points."""
    points = [compared(some_points(3)[2], {"time_s": 0.05}), compared(a_point(), {"hbm_read_bytes": -0.3})]
    return validate_html(a_validation(*points), MADE)


PAGES = (explore_page, predict_page, diff_page, tune_page, validate_page)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of one browser for all pages."""
    with chromium(tmp_path_factory.mktemp("profile")) as listens_at:
        yield listens_at


@pytest.fixture(scope="module", params=PAGES, ids=[made.__name__ for made in PAGES])
def page(request: pytest.FixtureRequest, port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Each kind of page, opened."""
    make: Callable[[], str] = request.param
    file = tmp_path_factory.mktemp("page") / f"{make.__name__}.html"
    file.write_text(make(), "utf-8")
    with opened(port, file) as shown:
        yield shown


def test_a_page_opens_without_an_error_and_asks_nobody_else(page: Page) -> None:
    """Its own file, and pictures that lie in it, are all that it loads."""
    assert page.value("document.title").startswith("Tilesight")
    assert page.said == []
    assert [address for address in page.asked if not address.startswith(("file:", "data:", "about:"))] == []


def test_a_page_is_no_wider_than_the_window(page: Page) -> None:
    """Tables scroll in boxes of their own."""
    assert page.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_marks_tell_what_they_are_when_pointed_at(page: Page) -> None:
    """The first that a pointer can reach; and nothing stands there any more when it has left."""
    places = page.value(
        """[...document.querySelectorAll("[data-tip]")].slice(0, 12).map(mark => {
             mark.scrollIntoView({block: "center"});
             const box = mark.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
             return document.elementFromPoint(x, y) === mark ? [window.scrollY, x, y, mark.dataset.tip] : null;
           }).filter(place => place)"""
    )
    assert places or not page.value('document.querySelectorAll("[data-tip]").length')
    for scroll, x, y, text in places[:3]:
        page.value(f"window.scrollTo(0, {scroll})")
        page.point_at(x, y)
        tip = 'document.getElementById("tip")'
        assert page.value(f"[{tip}.style.display, {tip}.textContent]") == ["block", text]
        page.point_at(1, 1)
        assert page.value(f"{tip}.style.display") == "none"


def test_tables_sort_by_what_is_clicked(page: Page) -> None:
    """By the number behind a cell's text, or by its text; up, then down; none loses a row."""
    sorted_both_ways = page.value(
        """[...document.querySelectorAll("table.sorts")].every(table => {
             const key = row => row.cells[column].dataset.key ?? row.cells[column].textContent;
             const rows = () => [...table.querySelector("tbody").rows], count = rows().length;
             var column = 0;
             return [...table.querySelectorAll("th")].every((head, number) => {
               column = number;
               return [1, -1].every(way => {
                 head.click();
                 const keys = rows().map(key).filter(text => text !== "");
                 const ordered = (a, b) => way * (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b) <= 0;
                 return rows().length === count && keys.slice(1).every((text, at) => ordered(keys[at], text));
               });
             });
           })"""
    )
    assert sorted_both_ways
    assert page.said == []
