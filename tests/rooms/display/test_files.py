"""Files of results are written whole or not at all, whoever writes them."""

import resource
import signal
from pathlib import Path

import pytest
from support.made_rows import prediction_of, row_of
from tilesight.simulator.display.files import write_whole

PAGE_BYTES = 1000
"""A folder has room for so many bytes in a file: a page is larger."""


def test_a_page_that_has_no_room_leaves_the_old_one(tmp_path: Path) -> None:
    """As on a full disk; and nothing of the new one lies beside it."""
    old = tmp_path / "page.html"
    old.write_text("the old page")
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (PAGE_BYTES, before[1]))
    try:
        with pytest.raises(OSError):
            prediction_of(row_of(1e-3)).to_html(old)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert old.read_text() == "the old page" and list(tmp_path.iterdir()) == [old]


def test_a_file_keeps_its_rights_and_its_link(tmp_path: Path) -> None:
    """It is replaced where it lies, as the user has set it."""
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_whole(link, "new")
    assert file.read_text() == "new" and file.stat().st_mode & 0o777 == 0o640 and link.is_symlink()
