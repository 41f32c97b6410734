"""Pieces of memory that the tracer places where no access was are told, not lost."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.trace.program.left_out import notes_on_lost_pieces
from tilesight.simulator.trace.touch.address_list import AddressList
from tilesight.simulator.trace.touch.footprints import Rectangle

X = Storage(number=0, size_bytes=4096, name="X")


def notes(*starts: int, piece: Rectangle) -> list[str]:
    """What is said of pieces that begin so far from the start of X [B]."""
    none = np.zeros((0, 2), dtype=np.int64)
    listing = AddressList(starts=np.array(starts) + X.address, piece=piece, spans=none, at=none[:, 0], until=none[:, 0])
    kind = SimpleNamespace(uses=[SimpleNamespace(storage=0, listings=(listing,))])
    subject: Any = SimpleNamespace(kernel=SimpleNamespace(name="f"), memory=SimpleNamespace(storages={X.number: X}))
    return notes_on_lost_pieces(subject, [SimpleNamespace(masked=[kind])])  # type: ignore[list-item]


def test_pieces_within_their_tensor_are_no_remark() -> None:
    """From the first byte to the last."""
    assert notes(0, 2048, piece=Rectangle(0, 2, 1024, 1024)) == []


@pytest.mark.parametrize("start", [-1024, 3072])
def test_pieces_before_or_behind_their_tensor_are_counted(start: int) -> None:
    """A tile of two rows, one of which lies outside."""
    (note,) = notes(0, start, piece=Rectangle(0, 2, 1024, 1024))
    assert note.startswith("kernel f: pieces of X were placed outside of it and are left out (1)")


def test_a_sector_that_begins_within_may_reach_beyond() -> None:
    """Sizes that are no multiple of a sector."""
    assert notes(4080, piece=Rectangle(0, 1, 0, 32)) == []
