"""A validation as text, page and HTML: every point is there, the worst stands out, what was left out says why."""

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.made_up_measurements import (
    PROBLEM,
    a_point,
    a_timing,
    a_validation,
    compared,
    lost,
    predicted,
    some_points,
)
from support.waiting import HANG_S
from tilesight.simulator.report.page import Made
from tilesight.simulator.report.series import LEVELS
from tilesight.validate.compare.campaign import Validation
from tilesight.validate.compare.compare import QUANTITIES
from tilesight.validate.report.html import validate_html
from tilesight.validate.report.page import page_text
from tilesight.validate.report.text import error_text, short_config, validate_text

MADE = Made(command="tilesight validate --html x", version="1.2.3", date="2026-11-23T12:34:56+00:00")
VOID = {"meta", "link", "br", "img", "input", "hr"}
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
LOST_REASON = "hang: the worker gave no answer in 120 s"


@pytest.fixture(scope="module")
def validation() -> Validation:
    """Points of three schedules; one far off in time, one in HBM reads, one without counters, one lost."""
    far, loud = a_point("naive", PROBLEM, block_m=64), a_point(cta_order="head-fast")
    points = [
        compared(some_points(3)[2], {"time_s": 0.05}),
        compared(a_point(), {"hbm_read_bytes": -0.3}),
        compared(far, {"time_s": 0.77, "cycles": 0.5}),
        compared(a_point("flash1"), counted=False),
        compared(loud, timing=a_timing(predicted(loud).time_s, noise="unstable")),
    ]
    return a_validation(*points, lost(a_point(block_n=128), LOST_REASON), notes=("a note <b>&",))


def test_the_text_has_every_point_once(validation: Validation) -> None:
    """Those that count in a table, the others in a list with their reason."""
    text = validate_text(validation, 160)
    table = text.split("relative error of")[0]
    assert [line.split()[0] for line in table.splitlines()[6:-1] if line] == [
        "flash2",
        "flash2",
        "naive",
        "flash1",
        "flash2",
    ]
    assert "Left out of the statistics, 1 of 6 points:" in text
    assert f"{a_point(block_n=128).key}: {LOST_REASON}" in " ".join(text.split())


def test_the_text_says_what_the_reader_must_know(validation: Validation) -> None:
    """Machine, missing counters with their reason, noise, notes."""
    text = validate_text(validation, 160)
    assert text.startswith("Measured on NVIDIA H200, 2026-11-21 (driver 580.1, torch 2.11, triton 3.6.0, ncu 2025.3.1)")
    assert "No counters for 1 of 5 points, time only: ncu is not installed" in text
    assert "1 of 5 times are noisy" in text
    assert "a note <b>&" in text


def test_the_text_fits_the_terminal(validation: Validation) -> None:
    """Less important columns go first; those that identify a point and its errors stay, and keys are never cut."""
    for width in (120, 160):
        lines = [line for line in validate_text(validation, width).splitlines() if "block_m=" not in line]
        assert max(map(len, lines)) <= width
    assert "head-fast" in validate_text(validation, 60)


def test_a_validation_without_a_good_point_is_a_text() -> None:
    """All lost: no table, all reasons."""
    text = validate_text(a_validation(lost(a_point(), "hang"), lost(a_point("naive"), "out of memory: x")), 120)
    assert "2 of 2 points" in text
    assert "relative error of" not in text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (0.0, "0 %"),
        (0.00012, "+0.01 %"),
        (-0.0249, "-2.5 %"),
        (0.5, "+50.0 %"),
        (3.48, "+348 %"),
        (float("inf"), "inf"),
        (None, ""),
    ],
)
def test_errors_as_text(error: float | None, text: str) -> None:
    """Signed, with as many digits as matter."""
    assert error_text(error) == text


def test_values_as_text() -> None:
    """Each with the unit that its quantity has."""
    texts = [QUANTITIES[name].text(1.5e9) for name in ("hbm_read_bytes", "clock_hz", "cycles", "peak_memory_bytes")]
    assert texts == ["1.50 GB", "1.50 GHz", "1.50 G", "1.40 GiB"]
    assert QUANTITIES["time_s"].text(1.5e-3) == "1.50 ms"


def test_configurations_in_short_leave_out_the_usual() -> None:
    """And nothing else."""
    assert short_config(compared(a_point())) == "128x64 w4 s3"
    assert short_config(compared(a_point(cta_order="head-fast", persistent=2))) == "128x64 w4 s3 head-fast persistent 2"
    step = replace(PROBLEM, seqlen_q=1)
    decoding = a_point("flash_decode", step, block_n=32, splits=4, num_stages=2)
    assert short_config(lost(decoding, "not run")) == "32 splits 4 w4 s2"


def test_the_page_marks_the_worst(validation: Validation) -> None:
    """In bold in the statistics of its half, and where the point itself stands."""
    page = page_text(validation, Path("results/h200.jsonl"))
    half = validation.comparisons[2].point.half
    statistics = page.split(f"## The {half} half")[1].split("##")[0]
    assert re.search(r"\| time \| .*\*\*\+77\.0 %\*\* \| `naive/", statistics)
    points = page.split("## Every point")[1]
    (row,) = [line for line in points.splitlines() if "naive/" in line]
    assert "**+77.0 %**" in row
    assert "**+50.0 %**" in row


def test_the_page_hides_nothing(validation: Validation) -> None:
    """Every point is on it, also the lost one, with both halves and the verdicts that were missed."""
    page = page_text(validation, Path("results/h200.jsonl"))
    for comparison in validation.comparisons:
        assert comparison.point.key in page
    assert LOST_REASON in page
    assert "## The test half" in page
    assert "## The fitting half" in page
    assert "**FAIL**" in page
    assert "`tilesight validate --read h200.jsonl --page ...`" in page
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert all(line.endswith(" |") for line in rows)


def test_the_page_has_rectangular_tables(validation: Validation) -> None:
    """As many cells in each row as in the head."""
    for block in re.findall(r"(?:^\|.*\n)+", page_text(validation, None), re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1, block


def test_the_html_is_whole(validation: Validation) -> None:
    """Every tag is closed, text is escaped, every point is in the table or the list."""
    page = validate_html(validation, MADE)
    body = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    open_tags: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag not in VOID:
                open_tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

    Parser().feed(body)
    assert open_tags == []
    assert "a note &lt;b&gt;&amp;" in body
    assert LOST_REASON in body
    assert len(re.findall(r"<tr><td class=\"left\">(?:flash|naive)", body.split("All points")[1])) == 5


def test_the_html_needs_no_network(validation: Validation) -> None:
    """Nothing is loaded from elsewhere."""
    assert re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=", validate_html(validation, MADE)) == []


def test_a_html_without_a_good_point_is_a_page() -> None:
    """With its reason, and no empty picture."""
    page = validate_html(a_validation(lost(a_point(), "hang")), MADE)
    assert "hang" in page
    assert 'class="picture"' not in page


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to open the page with")
def test_the_html_opens(validation: Validation, tmp_path: Path) -> None:
    """A browser draws every picture, sorts a table at a click, and reports no error."""
    file = tmp_path / "page.html"
    click = (
        "<script>window.onerror = text => document.title = 'error: ' + text;"
        "document.querySelectorAll('th').forEach(head => head.click());"
        "const list = document.getElementById('levels-point'); list.selectedIndex = 1; list.onchange({target: list});"
        "</script></body>"
    )
    file.write_text(validate_html(validation, MADE).replace("</body>", click), "utf-8")
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--virtual-time-budget=10000", "--dump-dom", file.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True).stdout
    assert "<title>Tilesight validated on NVIDIA H200</title>" in dom
    pictures = re.findall(r'<div class="picture" id="([\w-]+)"', dom)
    assert {"roofline", "scatter-time_s", "scatter-cycles"} <= set(pictures)
    bars = re.findall(r"width: ([\d.]+)%[^>]*></i><span>([^<]*)</span>", dom)
    assert len(bars) == 2 * len(LEVELS)
    assert "100" in {width for width, _ in bars}
    assert 'aria-sort="ascending"' in dom


def test_a_lower_bound_is_held_against_nothing() -> None:
    """What waits would add is not predicted: such a point says nothing of the model's error."""
    sound = compared(a_point())
    assert sound.prediction and not sound.objections
    bound = replace(sound, prediction=replace(sound.prediction, lower_bound=True))
    assert "lower bound" in bound.objections[0]
