"""The pages tell the truth: what they show below a command is what it prints, and so are the numbers in their prose."""

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from closed_forms.papers import flash1_hbm_bytes
from house.farm import ROOT
from house.pages import COMPILED, EXPLORE, OURS, PAGES, WIDTH, Section, is_printed, missing, pointed_to, sections, value
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem

from tilesight.cli.main import main

WITH_FIGURES = ("README.md", "docs/tutorial.md", "docs/lesson.md")
"""Pages whose prose speaks of what is printed."""
COMPUTED = {
    "docs/tutorial.md": {
        "60.0 MiB": "h200.l2_bytes",
        "42 %": "[67.9 us] / [161 us]",
        "6.98 GB": "flash1_bytes(64)",
        "3.62 GB": "flash1_bytes(128)",
        "1.95 GB": "flash1_bytes(256)",
        "4.55 TB/s": "h200.hbm_read_bytes_per_s",
        "2.10 MB": "2 * 2 * 4096 * 64 * 2",
        "0.52 MB": "512 * 1024",
        "33.6 MB": "16 * 2 * 2 * 4096 * 64 * 2",
        "1.05 MB": "2 * 4096 * 64 * 2",
    },
    "docs/lesson.md": {
        "257 MB": "[125 MB] + [132 MB]",
        "704 MB": "[336 MB] + [368 MB]",
        "312 TFLOP/s": "[275 GFLOP] / [881 us]",
    },
    "README.md": {},
}
"""Page -> number in its prose that no command prints -> how it follows: from `[numbers]` that one does, from the
problem's own, from the device `h200`, and from the paper's traffic of FlashAttention-1."""


def _sections_with_numbers() -> list[Section]:
    return [section for page in PAGES for section in sections(page) if section.ours() and section.page not in COMPILED]


@cache
def _run(command: str) -> str:
    """What a command prints. Fails where it does not answer, writes no file, or has an exit code that it should not."""
    width = WIDTH.match(command)
    os.environ["COLUMNS"] = width[1] if width else "120"
    arguments = shlex.split(f"{OURS} explore" if command == EXPLORE else WIDTH.sub("", command))[1:]
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*arguments, *(["--workers", "1"] if arguments[0] in ("explore", "compare") else [])])
    wrong = re.search(r"\b[1-9]\d* failed", out.getvalue()) is not None
    assert code == wrong, err.getvalue()
    assert out.getvalue()
    for option, file in pairwise(arguments):
        if option in ("--html", "--plot", "--csv", "--trace"):
            assert Path(file).stat().st_size > 0
    return out.getvalue()


def _printed(section: Section) -> str:
    """What the commands of a section print, and those of the sections that its prose points to."""
    return "\n".join(_run(command) for shown in (section, *pointed_to(section)) for command, _ in shown.ours())


def _unknown(section: Section, printed: str) -> list[str]:
    """Numbers of a section's prose that neither its commands print nor the table of computed ones explains."""
    computed = COMPUTED[section.page]
    return [
        number
        for number in section.numbers()
        if not is_printed(number, printed) and not (number in computed and _follows(number, computed[number], printed))
    ]


def _follows(number: str, expression: str, printed: str) -> bool:
    """Whether a number is what its expression gives, to the last of its digits."""
    shown = re.findall(r"\[([^]]+)\]", expression)
    if not all(is_printed(figure, printed) for figure in shown):
        return False
    plain = re.sub(r"\[([^]]+)\]", lambda match: repr(value(match[1])[0]), expression)
    expected, half = value(number)
    known = {"h200": load_device("h200"), "flash1_bytes": _flash1_bytes}
    return abs(eval(plain, known) - expected) <= half * (1 + 1e-9)


def _flash1_bytes(block_n: int) -> int:
    """The traffic of the tutorial's FlashAttention-1 by the paper [B]."""
    problem = AttentionProblem(batch=64, heads=16, seqlen_q=1024, seqlen_k=1024, head_dim=64)
    return flash1_hbm_bytes(problem, block_n).total_bytes


@pytest.fixture(autouse=True)
def plain_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder, 120 columns, and no compiler: as most readers have it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")  # put back afterwards
    monkeypatch.setattr("tilesight.kernels.launch.availability.missing_package", lambda: "torch is not installed")
    yield


@pytest.mark.parametrize(
    "section", _sections_with_numbers(), ids=lambda section: f"{section.page.replace('/', '|')}: {section.heading}"
)
def test_a_section_shows_what_its_commands_print(section: Section) -> None:
    """Every line below a command, in order; and every number with a unit in the prose around it."""
    for file, text in section.files():
        Path(file).write_text(text, "utf-8")
    for command, shown in section.ours():
        assert missing(shown, _run(command)) == [], command
    if section.page in WITH_FIGURES:
        assert _unknown(section, _printed(section)) == []


def test_every_computed_number_is_told() -> None:
    """What no page says any more needs no explanation."""
    for page, computed in COMPUTED.items():
        numbers = [number for section in sections(ROOT / page) for number in section.numbers()]
        assert set(computed) <= set(numbers)


def test_lines_that_are_not_printed_are_seen() -> None:
    """Another number, another order, and lines left out without dots; not what dots stand for."""
    printed = "a 1\n\nb 2\nc 3\nd 4\n"
    assert missing(["a 1", "...", "c 3", "d 4"], printed) == []
    assert missing(["...", "b 2", "..."], printed) == []
    assert missing(["a 1", "b 3", "..."], printed) == ["b 3"]
    assert missing(["...", "c 3", "...", "a 1", "..."], printed) == ["a 1"]
    assert missing(["a 1", "c 3", "d 4"], printed) == ["c 3"]
    assert missing(["a 1", "b 2"], printed) == ["dots for 'c 3' and what follows"]


def test_numbers_of_prose_are_found() -> None:
    """With units, in lists, and thousands; not in code, and not what has none."""
    text = (
        "Of `128 MB` it moves 541, 273 and 71.3 MB in 1.5 ms,\nso 3.66x or 30 times, 95 % of 48,449 keys; 8 x 33 tiles."
    )
    section = Section(page="README.md", heading="", text=f"{text}\n```console\n$ x\n5 GB\n```\n")
    assert section.numbers() == ["48,449", "541 MB", "273 MB", "71.3 MB", "1.5 ms", "3.66x", "30x", "95 %"]
    printed = "N = 48,449  541 MB  273 MB  71.3 MB  11.5 ms  3.66x  30x  95 %"
    assert _unknown(section, printed) == ["1.5 ms"]


def test_a_computed_number_must_follow_from_printed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last digit, and from what is printed now."""
    section = Section(page="README.md", heading="", text="In all it moves 541 MB.")
    for expression, printed, left in (
        ("[273 MB] + [268 MB]", "273 MB read, 268 MB written", []),
        ("[273 MB] + [269 MB]", "273 MB read, 269 MB written", ["541 MB"]),
        ("[273 MB] + [268 MB]", "273 MB read", ["541 MB"]),
    ):
        monkeypatch.setitem(COMPUTED, "README.md", {"541 MB": expression})
        assert _unknown(section, printed) == left


def test_prose_points_to_steps_and_to_what_is_above() -> None:
    """By their numbers, and from the section below; numbers alone point nowhere."""
    page = ROOT / "docs/tutorial.md"
    head, first, second, *_ = sections(page)
    for text, pointed in (("as in step 1", [first]), ("the 5 GB above", [first]), ("2 of 1", [])):
        assert pointed_to(replace(second, text=text)) == pointed
    assert pointed_to(replace(head, text="above")) == []


def test_units_have_sizes() -> None:
    """Those of capacity are powers of two."""
    assert value("16.1 MiB") == (16.1 * 2**20, 0.05 * 2**20)
    assert value("1,024 kB") == (1024e3, 500.0)
    assert value("95 %") == (pytest.approx(0.95), 0.005)
