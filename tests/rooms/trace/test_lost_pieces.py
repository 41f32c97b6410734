"""Pieces of memory that the tracer places where no access was are told, not lost."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.trace.paths import OUTSIDE
from tilesight.simulator.trace.program.left_out import notes_on_lost_pieces
from tilesight.simulator.trace.touch.address_list import AddressList
from tilesight.simulator.trace.touch.footprints import Rectangle
from tilesight.simulator.trace.touch.rounds import Trips

X = Storage(number=0, size_bytes=4096, name="X")


def notes(*starts: int, piece: Rectangle, rounds: tuple[int, ...] = ()) -> list[str]:
    """What is said of pieces that begin so far from the start of X [B]. Args: rounds: of a loop in a loop, by CTA."""
    none = np.zeros((0, 2), dtype=np.int64)
    listing = AddressList(starts=np.array(starts) + X.address, piece=piece, spans=none, at=none[:, 0], until=none[:, 0])
    kind = SimpleNamespace(uses=[SimpleNamespace(storage=0, listings=(listing,))])
    subject: Any = SimpleNamespace(kernel=SimpleNamespace(name="f"), memory=SimpleNamespace(storages={X.number: X}))
    regions = [SimpleNamespace(parent=OUTSIDE), SimpleNamespace(parent=0)]
    trips = {1: Trips(per_round=np.array(rounds), shorter=np.zeros(len(rounds)))} if rounds else {}
    run = SimpleNamespace(paths=SimpleNamespace(regions=regions))
    path_class: Any = SimpleNamespace(masked=[kind], representative=run, trips=trips)
    return notes_on_lost_pieces(subject, [path_class])


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


def test_pieces_of_rounds_of_unlike_lengths_are_told_from_faults() -> None:
    """A persistent CTA whose tiles have 1 to 128 steps: the mean is taken, with the size of what that leaves out."""
    row = Rectangle(0, 1, 0, 1024)
    assert "please report" in notes(8192, piece=row, rounds=(32, 32))[0]
    (note,) = notes(8192, piece=row, rounds=(1, 128))
    assert "please report" not in note
    assert note.endswith("tiles of 1 to 128 steps took 281 us, 265 predicted, HBM bytes 30 % too few")
