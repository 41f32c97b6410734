"""What a notebook shows of results: short lines, small tables, data frames, lines to paste."""

import builtins
import csv
import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import pandas
import pytest
from support.made_up import a_launch, a_prediction
from tilesight.simulator.device.device import load_device
from tilesight.simulator.display.render import to_csv
from tilesight.simulator.explore.explore import Exploration, explore
from tilesight.simulator.explore.lengths import compare
from tilesight.simulator.explore.ranking import ranking_rows
from tilesight.simulator.prediction.kernel_row import KernelRow
from tilesight.simulator.prediction.kernels import KernelsPrediction
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.report.explore import explore_text
from tilesight.simulator.report.kernels.html import kernels_html
from tilesight.simulator.report.page import made_now
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import simulate, simulate_with_timeline

from tilesight.cli.main import main

pytestmark = pytest.mark.usefixtures("known_answers")

PROBLEM = AttentionProblem(batch=1, heads=4, seqlen_q=512, seqlen_k=512, head_dim=64)
TRAP = "<script>alert(1)</script> & co"


@pytest.fixture(scope="module")
def exploration() -> Exploration:
    """A small space, a part of which does not fit."""
    return explore(PROBLEM, schedule=("flash2", "naive"), block_m=(64, 256), num_warps=4, block_n=(64, 256))


class _Cells(HTMLParser):
    """Texts of the cells of a page, and the tags that it is made of."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def test_results_are_one_line(exploration: Exploration) -> None:
    """With what matters, and no more: schedule, configuration, time, what binds."""
    prediction, timeline = simulate_with_timeline(PROBLEM, config=Config(block_m=64))
    scaling = compare(PROBLEM, [128], schedule="flash2", num_warps=4, block_m=64, block_n=64, num_stages=2)
    several = (
        exploration,
        *exploration.candidates,
        prediction,
        *prediction.launches,
        exploration.device,
        timeline,
        scaling,
    )
    for result in (*several, *timeline.launches, find_schedule("flash2")):
        assert "\n" not in repr(result) and len(repr(result)) < 260, repr(result)
    assert repr(a_prediction()) == (
        "<Prediction: flash2 128 x 64, 4 warps, 2 stages, B=2 H=4 M=N=1024 D=64 fp16 no mask on h200:"
        " 1.00 ms, bound by tensor 60 %>"
    )
    assert repr(a_launch()) == "<LaunchPrediction: kernel, grid 64 x 1 x 1: 1.00 ms, bound by tensor 60 %>"
    assert repr(load_device("h200")) == "<Device: NVIDIA H200 SXM 141 GB, compute capability 9.0, 132 SMs>"
    best = exploration.ranked[0]
    assert best.prediction is not None
    assert repr(best.prediction.config) in f"{best.config!r}"
    assert f"best: {best.schedule} " in repr(exploration) and best.prediction.summary in repr(exploration)
    misfit = next(item for item in exploration.candidates if not item.fits)
    assert f"does not fit: {misfit.reason}" in repr(misfit)


def test_options_as_usual_are_left_out_of_a_line() -> None:
    """Others are told."""
    assert "m-fast" not in repr(simulate(PROBLEM))
    assert "cta order m-reversed" in repr(simulate(PROBLEM, config=Config(cta_order="m-reversed")))


def test_printed_it_is_the_table_of_the_command(exploration: Exploration) -> None:
    """The same best 15 rows in the same columns, and the line above."""
    printed = explore_text(exploration)
    for line in str(exploration).splitlines()[1:]:
        assert line in printed.splitlines()
    assert str(exploration).splitlines()[0] == exploration.title
    assert len(str(exploration).splitlines()) == 3 + 15


def test_a_notebook_shows_the_columns_of_the_table(exploration: Exploration) -> None:
    """A row each of the best 15, all columns in order, no script."""
    page = _Cells(exploration._repr_html_())
    head, *rows = page.rows
    printed = explore_text(exploration, width=400).splitlines()
    titles = next(line for line in printed if line.lstrip().startswith("#"))
    assert " ".join(titles.split()) == " ".join(head)
    assert len(rows) == 15 < len(exploration.ranked)
    first = next(line for line in printed if line.lstrip().startswith("1 "))
    assert " ".join(first.split()) == " ".join(" ".join(rows[0]).split())
    assert page.tags == {"p", "table", "thead", "tbody", "tr", "th", "td"}


def test_a_notebook_shows_a_row_per_launch() -> None:
    """With the same columns."""
    seen = simulate(PROBLEM, schedule="naive")
    head, *rows = _Cells(seen._repr_html_()).rows
    assert [row[0] for row in rows] == ["scores", "softmax", "output"]
    assert head[:2] == ["launch", "time"] and head[-1] == "bound by"
    assert rows[1][head.index("bound by")].startswith(seen.launches[1].bottleneck)


def test_nothing_of_a_result_is_markup(exploration: Exploration) -> None:
    """Names and remarks are text, whatever they hold."""
    for result in (
        replace(exploration, device_name=TRAP, notes=(TRAP,)),
        replace(a_prediction(replace(a_launch(), name=TRAP)), device=TRAP, notes=(TRAP,)),
    ):
        page = result._repr_html_()
        assert "<script" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; co" in page


def test_where_nothing_fits_the_line_above_is_all() -> None:
    """No table without rows."""
    none = explore(PROBLEM, block_m=256, block_n=256, num_stages=4, num_warps=4)
    assert not none.ranked
    assert str(none) == none.title
    assert "0 fit" in none._repr_html_() and "<td" not in none._repr_html_()
    assert none.to_triton_configs().splitlines()[-2:] == ["[", "]"]


def test_a_data_frame_has_the_columns_of_the_csv(exploration: Exploration) -> None:
    """And its rows, in order."""
    table = exploration.to_pandas()
    rows = list(csv.DictReader(StringIO(to_csv(ranking_rows(exploration.device_name, exploration.candidates)))))
    assert list(table.columns) == list(rows[0])
    assert len(table) == len(rows) == len(exploration.candidates)
    assert [str(name) for name in table["schedule"]] == [row["schedule"] for row in rows]
    times_s = [item.prediction.time_s for item in exploration.ranked if item.prediction]
    assert table["time_s"].dropna().tolist() == times_s
    assert table["time_s"].dtype == float


def test_a_data_frame_of_a_prediction_has_a_row_per_launch() -> None:
    """Every value is one number or text: shares have columns of their own."""
    seen = simulate(PROBLEM, schedule="naive")
    table = seen.to_pandas()
    assert table["name"].tolist() == ["scores", "softmax", "output"]
    assert table["time_s"].sum() == pytest.approx(seen.time_s)
    assert table["causes.launch"].tolist() == [launch.causes["launch"] for launch in seen.launches]
    assert (table["schedule"].iloc[0], table["block_m"].iloc[0]) == ("naive", 128)
    assert isinstance(table, pandas.DataFrame)


def test_without_pandas_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, exploration: Exploration) -> None:
    """And nothing else needs it."""
    real = builtins.__import__

    def without(name: str, *rest: Any, **others: Any) -> Any:
        if name.split(".")[0] == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'")
        return real(name, *rest, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    for result in (exploration, a_prediction()):
        with pytest.raises(ImportError, match=r"^to_pandas needs pandas, which is not installed: pip install pandas$"):
            result.to_pandas()  # type: ignore[attr-defined]


def test_files_are_those_of_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes, but for the foot of a page, which tells who made it."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    shape = ["--batch", "1", "--heads", "4", "--cost", "tiles"]
    narrow = {"block_m": 64, "num_warps": 4, "num_stages": 2}
    files = {name: tmp_path / f"x.{name}" for name in ("html", "png", "csv")}
    options = ["--seqlen", "512", "--block-m", "64", "--num-warps", "4", "--num-stages", "2"]
    assert main(["explore", *shape, *options, "--html", str(files["html"]), "--plot", str(files["png"])]) == 0
    exploration = explore(PROBLEM, cost="tiles", **narrow)
    mine = tmp_path / "mine"
    assert exploration.plot() == exploration.plot(mine) == mine.read_bytes() == files["png"].read_bytes()
    page = exploration.to_html(mine)
    assert page == mine.read_text("utf-8")
    assert page.replace("tilesight.explore(), from Python", "") == re.sub(
        r"(?<=<code>)tilesight explore [^<]*(?=</code>)", "", files["html"].read_text("utf-8")
    )
    lengths = ["--seqlens", "128,256", "--schedule", "flash2", "--block-m", "64", "--num-warps", "4"]
    options = ["--num-stages", "2", "--block-n", "64", "--plot", str(files["png"]), "--csv", str(files["csv"])]
    assert main(["compare", *shape[:-2], *lengths, *options]) == 0
    scaling = compare(PROBLEM, (128, 256), schedule="flash2", block_n=64, **narrow)
    assert scaling.plot(mine) == mine.read_bytes() == files["png"].read_bytes()
    assert to_csv(scaling.rows()) == files["csv"].read_text("utf-8")
    assert list(scaling.to_pandas().columns) == list(scaling.rows()[0])
    assert scaling.to_pandas()["time_s"].tolist() == [point.time_s for point in scaling.points]


def test_a_comparison_prints_the_tables_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """And a notebook shows them."""
    pinned = ["--block-m", "64", "--block-n", "64", "--num-warps", "4", "--num-stages", "2"]
    assert main(["compare", "--batch", "1", "--heads", "4", "--seqlens", "128", "--schedule", "flash2", *pinned]) == 0
    scaling = compare(PROBLEM, [128], schedule="flash2", block_m=64, block_n=64, num_warps=4, num_stages=2)
    assert str(scaling) + "\n" == capsys.readouterr().out
    assert escape(str(scaling)) in scaling._repr_html_()


def test_predicted_launches_have_the_page_of_the_command(tmp_path: Path) -> None:
    """As `predict --html` writes it."""
    row = KernelRow(name="add", grid=(1, 1, 1), num_warps=4, num_stages=3, label="", refused="kernel add: no")
    predicted = KernelsPrediction(device="h200", l2="cold", rows=(row,), notes=("no launch",))
    page = predicted.to_html(tmp_path / "x.html")
    assert (tmp_path / "x.html").read_text("utf-8") == page
    assert page == kernels_html([predicted], "recorded launches", made_now("tilesight.predict(), from Python"))


class _Config:
    """Stands for `triton.Config`."""

    def __init__(self, kwargs: dict[str, int], *, num_warps: int = 4, num_stages: int = 3) -> None:
        self.all = {**kwargs, "num_warps": num_warps, "num_stages": num_stages}


def _evaluated(text: str) -> list[dict[str, int]]:
    """What Python makes of pasted lines."""
    names = {"triton": type("triton", (), {"Config": _Config})}
    return [config.all for config in eval(text, names)]


def test_pasted_lines_are_the_best_configurations(exploration: Exploration) -> None:
    """In order, with their predicted times, as Python."""
    text = exploration.to_triton_configs(3)
    names = ("block_m", "block_n", "num_warps", "num_stages")
    best = exploration.ranked[:3]
    assert _evaluated(text) == [{name: getattr(item.config, name) for name in names} for item in best]
    assert len(_evaluated(exploration.to_triton_configs(999))) == len(exploration.ranked)
    with pytest.raises(ValueError, match=r"^top = 0: must be an integer of 1 or more$"):
        exploration.to_triton_configs(0)


def test_what_pasted_lines_leave_out_is_said_beside_them() -> None:
    """What is the same in all above, what differs behind each; what Triton always does, never."""
    text = explore(PROBLEM, block_m=64, block_n=64, num_warps=4, cta_order=("m-fast", "head-fast")).to_triton_configs()
    assert "# Not in them, and predicted with: kv_order = forward, persistent = 0.\n" in text
    assert "# Not in them, and told behind each: cta_order.\n" in text
    assert "warp_split" not in text
    assert all("cta_order = " in line for line in text.splitlines() if "triton.Config" in line)


def test_rows_alone_have_no_stages() -> None:
    """Only what the schedule takes is told to Triton."""
    text = explore(PROBLEM, schedule="online_softmax", block_m=1, num_warps=4).to_triton_configs(1)
    (line,) = (line for line in text.splitlines() if "triton.Config" in line)
    assert "num_stages" not in line and "num_warps=4" in line


def test_the_command_prints_the_same_lines(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    """In place of the table; files are written beside."""
    shape = ("--batch", "1", "--heads", "4", "--seqlen", "512", "--num-warps", "4", "--cost", "tiles")
    file = tmp_path / "all.csv"
    assert main(["explore", *shape, "--triton-configs", "2", "--csv", str(file)]) == 0
    exploration = explore(PROBLEM, num_warps=4, cost="tiles")
    assert capsys.readouterr().out == exploration.to_triton_configs(2) + "\n"
    assert len(file.read_text().splitlines()) == 1 + len(exploration.candidates)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("0",), "--triton-configs = 0: must be an integer of 1 or more"),
        (("3", "--json"), "--json: changes nothing with --triton-configs, which prints no table; leave it out"),
        (("3", "--top", "4"), "--top 4: changes nothing with --triton-configs, which prints no table; leave it out"),
        (("3", "--device", "h200,h100"), "--triton-configs '3': shows one device, not h200, h100-sxm; run once for"),
    ],
)
def test_pasted_lines_refuse_what_changes_nothing(
    options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line that names both."""
    assert main(["explore", "--triton-configs", *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1
    assert said in printed.err
