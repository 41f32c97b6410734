"""The pages: they show known programs alone, every link leads somewhere, and the index knows every page."""

import re
from pathlib import Path

import pytest
from house.farm import ROOT
from house.pages import DOCS, FENCE, OURS, PAGES, name, program, sections

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
OTHERS = {"make", "pip", "git", "pytest"}
MOST_DECISIONS, MOST_DECISION_LINES = 12, 20


def _anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.+)$", FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _broken(page: Path) -> list[str]:
    """Relative links of a page that lead nowhere."""
    wrong = []
    for link in LINK.findall(FENCE.sub("", page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_relative_to(ROOT) or not target.exists() or (anchor and anchor not in _anchors(target)):
            wrong.append(link)
    return wrong


def test_only_known_programs_are_shown() -> None:
    """A console block holds commands of ours, which are run here, or of the few that need a network or a fresh tree."""
    programs = {program(command) for page in PAGES for section in sections(page) for command, _ in section.blocks()}
    assert OURS in programs
    assert programs <= OTHERS | {OURS}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    """To a file of the tree, and to a heading where they name one."""
    assert _broken(page) == []


def test_a_broken_link_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing file and a missing heading; not what stands in a code block or on the web."""
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# A head: 1\n[a](gone.md) [b](#a-head-1) [c](#none) [d](https://x.org)\n```\n[e](f)\n```\n", "utf-8"
    )
    assert _broken(page) == ["gone.md", "#none"]


def test_the_index_links_every_page() -> None:
    """Also each schedule and each decision."""
    index = (DOCS / "index.md").read_text("utf-8")
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in LINK.findall(index)}
    missing = [name(page) for page in DOCS.rglob("*.md") if page not in linked and page.name != "index.md"]
    assert missing == []


def test_the_readme_takes_a_minute() -> None:
    """At most 120 lines; what it shows of `predict` is what the page about kernels shows, which is run."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 120
    ((shown,),) = [re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]
    assert shown in (DOCS / "your-kernel.md").read_text("utf-8")


def test_examples_are_the_files_of_the_pages() -> None:
    """As a reader of the page about kernels writes them; the others are named where what they print is shown."""
    written = {file: text for section in sections(DOCS / "your-kernel.md") for file, text in section.files()}
    pages = "".join((DOCS / page).read_text("utf-8") for page in ("choose.md", "diff.md", "several-gpus.md"))
    for path in (DOCS / "examples").iterdir():
        same = path.read_text("utf-8") == written.get(path.name)
        assert same or f"examples/{path.name}" in pages, path.name


def test_decisions_are_few_and_short() -> None:
    """At most twelve records of twenty lines: a record that is superseded goes, and Git keeps it."""
    lines_by_record = {path.name: len(path.read_text("utf-8").splitlines()) for path in (DOCS / "decisions").iterdir()}
    assert {record: lines for record, lines in lines_by_record.items() if lines > MOST_DECISION_LINES} == {}
    assert 1 <= len(lines_by_record) <= MOST_DECISIONS
