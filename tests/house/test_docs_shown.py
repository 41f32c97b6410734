"""The pages tell the truth: what they show below a command is what it prints, and so are the numbers in their prose."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from house.pages import DOCS, EXPLORE, OURS, PAGES, Section, is_printed, missing, sections, value
from tilesight.simulator.device import load_device

from tilesight.cli import main

TOLD = ("README.md", "docs/tutorial.md", "docs/lesson.md")
"""Pages whose prose speaks of what is printed."""
COMPUTED = {
    "docs/tutorial.md": {},
    "docs/lesson.md": {},
    "README.md": {},
}
"""Page -> number in its prose that no command prints -> how it follows: from `[numbers]` that one does, from the
problem's own, and from the device `h200`."""


def _told() -> list[Section]:
    return [section for page in PAGES for section in sections(page) if section.ours()]


def _run(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command prints. Fails where it does not answer, or writes no file that it is asked for."""
    arguments = shlex.split(f"{OURS} explore" if command == EXPLORE else command)[1:]
    code = main([*arguments, *(["--workers", "1"] if arguments[0] in ("explore", "compare") else [])])
    told = capsys.readouterr()
    assert code == 0, told.err
    assert told.out
    for option, file in pairwise(arguments):
        if option in ("--html", "--plot", "--csv", "--trace"):
            assert Path(file).stat().st_size > 0
    return told.out


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
    if not all(is_printed(one, printed) for one in shown):
        return False
    plain = re.sub(r"\[([^]]+)\]", lambda found: repr(value(found[1])[0]), expression)
    expected, half = value(number)
    return abs(eval(plain, {"h200": load_device("h200")}) - expected) <= half * (1 + 1e-9)


@pytest.fixture(autouse=True)
def plain_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder, 120 columns, and no compiler: as most readers have it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("tilesight.kernels.availability.missing_package", lambda: "torch is not installed")
    yield


@pytest.mark.parametrize("section", _told(), ids=lambda one: f"{one.page.replace('/', '|')}: {one.heading}")
def test_a_section_shows_what_its_commands_print(section: Section, capsys: pytest.CaptureFixture[str]) -> None:
    """Every line below a command, in order; and every number with a unit in the prose around it."""
    printed = []
    for command, shown in section.ours():
        printed.append(_run(command, capsys))
        assert missing(shown, printed[-1]) == [], command
    if section.page in TOLD:
        assert _unknown(section, "\n".join(printed)) == []


def test_every_computed_number_is_told() -> None:
    """What no page says any more needs no explanation."""
    for page, computed in COMPUTED.items():
        told = [number for one in sections(DOCS.parent / page) for number in one.numbers()]
        assert set(computed) <= set(told)


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


def test_units_have_sizes() -> None:
    """Those of capacity are powers of two."""
    assert value("16.1 MiB") == (16.1 * 2**20, 0.05 * 2**20)
    assert value("1,024 kB") == (1024e3, 500.0)
    assert value("95 %") == (pytest.approx(0.95), 0.005)
