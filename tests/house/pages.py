"""The pages: their sections, the commands in these, what they show of the output, and the numbers in their prose."""

import re
from dataclasses import dataclass
from pathlib import Path

from house.farm import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "validate" / "lab").glob("*.md")])
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
WRITTEN = re.compile(r"^Write `(\S+)`:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^## +(.+)$", re.MULTILINE)
OURS, EXPLORE = "tilesight", "make explore"
YOUR_KERNEL, PYTORCH, SEVERAL, ANY_CODE = (
    f"docs/{page}.md" for page in ("your-kernel", "pytorch", "several-gpus", "any-code")
)
CHOOSE, DIFF = "docs/choose.md", "docs/diff.md"
COMPILED = (YOUR_KERNEL, PYTORCH, SEVERAL, ANY_CODE, CHOOSE, DIFF)
"""Pages whose commands need torch and triton; `tests/kernels` runs them."""
WIDTH = re.compile(r"COLUMNS=(\d+) ")
LEFT_OUT = "..."

NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
UNITS = {
    **{"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30},
    **{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "%": 0.01, "x": 1.0, "GHz": 1e9},
    **{"GB/s": 1e9, "TB/s": 1e12, "MFLOP": 1e6, "GFLOP": 1e9, "TFLOP": 1e12, "TFLOP/s": 1e12, "": 1.0},
}
"""Unit -> what it is in the base unit."""
WORDS = {"times": "x", "percent": "%"}
SPACED = "|".join(map(re.escape, sorted({*UNITS, *WORDS} - {"", "x"}, key=len, reverse=True)))
LISTED = re.compile(rf"(?<![\w.,\[])({NUMBER}(?:(?:, | and | to | or ){NUMBER})*)(?:(x)\b| ({SPACED})(?![\w/]))")
"""One number with a unit, or several that share it, e.g. `4.70, 2.48 and 1.38 GB`."""
THOUSANDS = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w.,]*\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page under a heading of the second level. Args: page: its name; heading: empty at the page's head."""

    page: str
    heading: str
    text: str

    def blocks(self) -> list[tuple[str, list[str]]]:
        """Commands that the reader is asked to type, each with the lines shown below it, but for empty ones."""
        blocks: list[tuple[str, list[str]]] = []
        for block in CONSOLE.findall(self.text):
            for line in block.splitlines():
                if line.startswith("$ "):
                    blocks.append((line[2:].strip(), []))
                elif line:
                    blocks[-1][1].append(line)
        return blocks

    def ours(self) -> list[tuple[str, list[str]]]:
        """The same of those that are run by the tests."""
        return [(command, shown) for command, shown in self.blocks() if _runs(command, shown)]

    def files(self) -> list[tuple[str, str]]:
        """Names and texts of files that the reader is asked to write."""
        return WRITTEN.findall(self.text)

    def numbers(self) -> list[str]:
        """Numbers of the prose that have a unit or thousands, as commands print them, e.g. `138 MB`, `1.80x`."""
        prose = re.sub(r"`[^`]*`|\]\([^)]*\)", "", FENCE.sub("", self.text))
        numbers = [match.group() for match in THOUSANDS.finditer(prose)]
        for match in LISTED.finditer(" ".join(prose.split())):
            unit = match[2] or WORDS.get(match[3], match[3])
            numbers += [f"{digits}{'' if unit == 'x' else ' '}{unit}" for digits in re.findall(NUMBER, match[1])]
        return list(dict.fromkeys(numbers))


def _runs(command: str, shown: list[str]) -> bool:
    """Ours are run; `make explore`, which installs first, where its output is shown."""
    return program(command) == OURS or (command == EXPLORE and bool(shown))


def program(command: str) -> str:
    """What a command runs, once it has set how wide the output is."""
    return WIDTH.sub("", command).split()[0]


def name(page: Path) -> str:
    """A page's path in the tree."""
    return page.relative_to(ROOT).as_posix()


def sections(page: Path) -> list[Section]:
    """The sections of a page, in order."""
    head, *rest = HEADING.split(page.read_text("utf-8"))
    pairs = zip(rest[::2], rest[1::2], strict=True)
    return [Section(page=name(page), heading=title, text=text) for title, text in [("", head), *pairs]]


def missing(shown: list[str], printed: str) -> list[str]:
    """Shown lines that the output has not, in this order; lines may be left out only where dots say so."""
    lines, wrong = [line.rstrip() for line in printed.splitlines() if line.strip()], []
    place, loose = 0, False
    for line in shown:
        if line == LEFT_OUT:
            loose = True
            continue
        at = lines.index(line, place) if line in lines[place:] else None
        if at is None or (at > place and not loose):
            wrong.append(line)
            loose = True
        else:
            place, loose = at + 1, False
    return (
        wrong if loose or not shown or place == len(lines) else [*wrong, f"dots for {lines[place]!r} and what follows"]
    )


def value(text: str) -> tuple[float, float]:
    """A printed number in base units, and half a unit of its last digit."""
    match = re.fullmatch(rf"({NUMBER}) ?(\D*)", text)
    assert match, text
    digits, unit = match[1].replace(",", ""), UNITS[match[2]]
    return float(digits) * unit, 0.5 * 10.0 ** -len(digits.partition(".")[2]) * unit


def is_printed(number: str, printed: str) -> bool:
    """Whether a number with its unit is in the output, alone; `2TB/s` is `2 TB/s`."""
    spaced = re.escape(number).replace(r"\ ", " ?")
    return re.search(rf"(?<![\d.,]){spaced}(?![\w/])", printed) is not None


def pointed_to(section: Section) -> list[Section]:
    """Other sections of the page that the prose of one points to: `step 4` by number, `above` for the one before."""
    others, prose = sections(ROOT / section.page), FENCE.sub("", section.text)
    place = [other.heading for other in others].index(section.heading)
    pointed = others[place - 1 : place] if re.search(r"\babove\b", prose) else []
    steps = set(re.findall(r"\bsteps? (\d+)\b", prose)) - {section.heading.partition(".")[0]}
    return [*pointed, *(other for other in others if other.heading.partition(".")[0] in steps and other not in pointed)]
