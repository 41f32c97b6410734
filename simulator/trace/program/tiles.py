"""From uses to the tiles of a program: rectangles of storages, their origins affine in variables of the CTAs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np

from ...dtypes import DTYPES
from ...emulator.storage import Storage
from ...emulator.thread_values import Array
from ...launch.lists import Lists
from ...launch.program import Affine, Tensor, Tile
from ..touch.access_patterns import AccessPattern
from ..touch.address_list import AddressList
from ..touch.footprints import Rectangle, rectangles_of
from .pitches import Rows, single_rows

FIRST = 1 << 10
"""Values whose divisors are found before it is seen whether these divide the others."""
MOST_SINGLE_ROWS = 256
"""Rows of a use that are tiles of their own, each with a variable; of more, a list says where they lie."""


class Variables:
    """The item variables of a program: a column for each, those that are alike only once.

    What only some items read shares a column with what only others read: a class of CTAs has its own numbers, and no
    CTA is of two. So columns are as many as the largest class needs, not as all need together.
    """

    def __init__(self, items: int) -> None:
        self.items = items
        self.columns: dict[str, Array] = {}
        self._whole: dict[bytes, str] = {}
        self._shared: list[str] = []
        self._readers: dict[int, _Readers] = {}
        self._taken = np.zeros(items, dtype=np.bool_)
        self.name(np.zeros(items, dtype=np.int64))

    @property
    def zero(self) -> str:
        """Name of the variable that is 0 everywhere."""
        return next(iter(self.columns))

    def name(self, values: Array) -> str:
        """The variable that has these values in all items, int64 (items,)."""
        key = _digest(values)
        if key not in self._whole:
            self._whole[key] = self._new(values)
        return self._whole[key]

    def among(self, values: Array, members: Array) -> str:
        """A variable that has these values in some items; what it is in others, none of these may read."""
        if len(members) == self.items:
            return self.name(values)
        if not values.any():
            return self.zero
        readers, key = self._readers_of(members), _digest(values)
        if key not in readers.names:
            if len(readers.names) == len(readers.columns):
                readers.columns.append(self._new(np.zeros(self.items, dtype=np.int64)))
            readers.names[key] = readers.columns[len(readers.names)]
            self.columns[readers.names[key]][members] = values
        return readers.names[key]

    def affine(self, values: Array, members: Array) -> Affine:
        """These values of some items as a variable times what divides all of them."""
        divisor = common_divisor(values)
        return ((self.among(values // divisor, members), divisor),) if divisor else ()

    def _readers_of(self, members: Array) -> "_Readers":
        """What is known of a class, by the array that names its CTAs."""
        if id(members) not in self._readers:
            # A class that has CTAs of another one reads columns of its own.
            columns = [] if self._taken[members].any() else self._shared
            self._taken[members] = True
            self._readers[id(members)] = _Readers(members=members, columns=columns)
        return self._readers[id(members)]

    def _new(self, values: Array) -> str:
        name = f"v{len(self.columns)}"
        self.columns[name] = np.array(values, dtype=np.int64)
        return name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Readers:
    """Items of a class. Args: columns: that it takes in order; names: digest of values -> the column with them."""

    members: Array
    columns: list[str]
    names: dict[bytes, str] = field(default_factory=dict)


def common_divisor(values: Array) -> int:
    """The largest number that divides all of these, which may be millions; 0 where they are all 0.

    What divides some of them mostly divides the others, which is sooner seen than their divisors are found.
    """
    divisor, left = 0, values
    while divisor != 1 and len(left):
        divisor = int(np.gcd.reduce(np.abs(left[:FIRST]), initial=divisor))
        left = left[FIRST:][left[FIRST:] % divisor != 0] if divisor else left[left != 0]
    return divisor


def _digest(values: Array) -> bytes:
    """16 bytes that tell values apart, in place of the values, of which there may be a million."""
    return blake2b(np.ascontiguousarray(values, dtype=np.int64).data, digest_size=16).digest()


def tensor_of(name: str, role: str, storage: Storage, rows: Rows) -> Tensor:
    """A storage as a matrix of bytes."""
    count = max(1, -(-(storage.size_bytes + rows.origin) // rows.pitch))
    return Tensor(
        name=name,
        role=role,  # type: ignore[arg-type]
        slabs=1,
        rows=count,
        cols=rows.pitch,
        dtype=DTYPES["u8"],
        storage=storage.number,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where the tiles of a use are placed.

    Args:
        tensor: its name.
        storage: that it lies in.
        rows: of the storage.
        counters: of the loops around, the outermost first.
        members: CTAs of the class.
        variables: of the program.
    """

    tensor: str
    storage: Storage
    rows: Rows
    counters: tuple[str, ...]
    members: Array
    variables: Variables


def tiles_by_strides(use: AccessPattern, placed: Placed, begins: Array) -> list[Tile]:
    """The tiles of a use: of each rectangle, or one with a list that all CTAs share. Args: as of `tiles_of`."""
    rows, variables = placed.rows, placed.variables
    rectangles = rectangles_of(use.runs)
    if rows.pitch < placed.storage.size_bytes or sum(rectangle.rows for rectangle in rectangles) <= MOST_SINGLE_ROWS:
        return [tile for rectangle in rectangles for tile in tiles_of(use, rectangle, placed, begins)]
    alike: dict[int, list[Rectangle]] = {}
    for row in (row for rectangle in rectangles for row in single_rows(rectangle)):
        alike.setdefault(row.width, []).append(row)
    tiles = []
    for those in alike.values():
        (first,) = tiles_of(use, those[0], placed, begins)
        pieces = np.array([(0, row.offset - those[0].offset) for row in those], dtype=np.int64)
        spans = np.array([(0, len(pieces))], dtype=np.int64)
        until = variables.name(np.ones(variables.items, dtype=np.int64))
        lists = Lists(spans=spans, pieces=pieces, at=variables.zero, until=until, shared=True)
        tiles.append(replace(first, lists=lists, zero_bytes=first.zero_bytes / len(pieces)))
    return tiles


def tiles_of(use: AccessPattern, rectangle: Rectangle, placed: Placed, begins: Array) -> list[Tile]:
    """The tiles of a rectangle: one, or its rows one by one where they do not lie at the storage's pitch.

    Args:
        begins: iteration of the innermost loop that a CTA begins with, int64 (CTAs,) or (1,).
    """
    pitch, variables = placed.rows.pitch, placed.variables
    if rectangle.rows > 1 and rectangle.pitch != pitch:
        return [tile for row in single_rows(rectangle) for tile in tiles_of(use, row, placed, begins)]
    # Iterations before the first that has the use would lie in other rows, or before the storage. They are taken off
    # where the counter is added: to the column, also where they are whole rows together, as columns end with their row.
    skipped = begins * (use.strides[-1] if use.first else 0)
    first = use.base + skipped + rectangle.offset - placed.storage.address + placed.rows.origin
    line, col = np.divmod(first, pitch)
    line, col = (line, col - skipped) if use.strides and use.strides[-1] % pitch else (line - skipped // pitch, col)
    count, width = rectangle.rows, rectangle.width
    if count == 1 and width % pitch == 0:
        count, width = width // pitch, pitch
    row_terms, col_terms = (variables.affine(values, placed.members) for values in (line, col))
    for counter, stride in zip(placed.counters, use.strides, strict=True):
        if stride % pitch == 0 and stride:
            row_terms += ((counter, stride // pitch),)
        elif stride:
            col_terms += ((counter, stride),)
    return [
        Tile(
            tensor=placed.tensor,
            slab=variables.zero,
            rows=count,
            cols=width,
            row=row_terms,
            col=col_terms,
            path=use.path,  # type: ignore[arg-type]
            integers=use.integers,
            passing=use.passing,
            part_fraction=use.part_fraction,
            zero_bytes=use.zero_bytes if rectangle.offset == use.runs[0][0] else 0,
        )
    ]


def listed_tile(listing: AddressList, use: AccessPattern, placed: Placed) -> Tile:
    """The tile of a use whose pieces are listed."""
    assert use.uneven is not None
    rows, counters, members, variables = placed.rows, placed.counters, placed.members, placed.variables
    per = [1]
    for size in reversed(use.uneven.sizes[1:]):
        per.insert(0, per[0] * size)
    stride = use.uneven.stride or 0
    starts = listing.starts - placed.storage.address + rows.origin
    piece, spans, zero_bytes = listing.piece, listing.spans, float(listing.zero_bytes)
    if piece.rows > 1 and piece.pitch != rows.pitch:  # row by row
        starts = (starts[:, None] + piece.pitch * np.arange(piece.rows)).reshape(-1)
        piece, spans, zero_bytes = piece._replace(rows=1), spans * piece.rows, zero_bytes / piece.rows
    row: Affine = ()
    col: Affine = ()
    if stride % rows.pitch == 0 and stride:
        row = ((counters[-1], stride // rows.pitch),)
    elif stride:
        col = ((counters[-1], stride),)
    count, width = piece.rows, piece.width
    if count == 1 and width % rows.pitch == 0:
        count, width = width // rows.pitch, rows.pitch
    return Tile(
        tensor=placed.tensor,
        slab=variables.zero,
        rows=count,
        cols=width,
        row=row,
        col=col,
        path=use.path,  # type: ignore[arg-type]
        integers=use.integers,
        passing=use.passing,
        zero_bytes=zero_bytes,
        part_fraction=listing.part_fraction,
        lists=Lists(
            spans=spans,
            pieces=np.stack(np.divmod(starts, rows.pitch), axis=1),
            at=variables.among(listing.at, members),
            until=variables.among(listing.until, members),
            per=tuple(zip(counters, per, strict=False)),
        ),
    )


def period_of(columns: Mapping[str, Array], items: int) -> int:
    """The fewest items after which columns repeat themselves; all where they do not."""
    divisors = sorted({d for k in range(1, int(items**0.5) + 1) if items % k == 0 for d in (k, items // k)})
    return next(
        d for d in divisors if d == items or all(np.array_equal(column[d:], column[:-d]) for column in columns.values())
    )
