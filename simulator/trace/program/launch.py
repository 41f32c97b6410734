"""Finds the program in the machine code of launches: steps, loops and tiles, as a schedule would have written them."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...emulator.global_memory import Memory, loads_of_memory
from ...emulator.storage import Storage
from ...emulator.thread_values import Array
from ...emulator.threads import Step as Effect
from ...launch.program import Launch, Loop, Step, Tensor, Tile, TileProgram
from ...launch.traced import Phase, TracedCode
from ...launch.walk import steps
from ...refusal import CannotFollow, Refused
from ...sass.flow import flow_of
from ..cta.address_slice import find_slice
from ..cta.block_counts import count_blocks
from ..cta.knowable import find_unknown
from ..cta.read_stores import find_sources
from ..cta.traced_kernel import CompiledKernel, TracedKernel
from ..cta.unknown_values import UnknownValues
from ..named_barriers import BarrierUses, barriers_of, most_ahead
from ..touch.access_patterns import AccessPattern
from ..touch.classes import classes_of
from ..touch.cta_class import PathClass
from ..touch.footprints import rectangles_of
from .continued import Continued
from .left_out import notes_on_launch, runs_unlike
from .nest import nest_of, running_ahead
from .pitches import Piece, Rows, one_row, rows_of
from .requested import Requested, requested_bytes, scattered_lanes
from .tiles import Placed, Variables, listed_tile, period_of, tensor_of, tiles_by_strides
from .work import dtype_of, executions_of

LIKE = 16
"""CTAs of a class that stand for all of it in the simulation of an SM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """What its code tells of a launch.

    Args:
        kernel: the launch; classes: its classes of CTAs; instructions: that its warps issue;
        known, accesses: instructions that touch memory on the paths that CTAs run: of known address, and all of them.
        read: number of each storage whose values were looked at -> its name; notes: doubts and remarks, one line each;
        lower_bound: whether waits of CTAs for each other were left out;
        estimated: places of accesses of which each lane is taken to touch a sector of its own; requested: bytes;
        continued: how the grid goes on from the CTAs that were followed, where these are not all of them; then
        barriers: of each class;
        placed: classes of all boxes of it; firsts: the first CTA of each.
    """

    kernel: CompiledKernel
    classes: tuple[PathClass, ...]
    instructions: int
    known: int
    accesses: int
    read: Mapping[int, str]
    notes: tuple[str, ...]
    lower_bound: bool
    estimated: frozenset[int]
    requested: Requested
    barriers: tuple[BarrierUses, ...] = ()
    continued: Continued | None = None
    placed: tuple[PathClass, ...] | None = None
    firsts: tuple[tuple[int, int, int], ...] = ()

    @property
    def everywhere(self) -> tuple[PathClass, ...]:
        """Its classes, with all CTAs that were followed."""
        return self.classes if self.placed is None else self.placed

    @property
    def followed_ctas(self) -> int:
        """CTAs that were followed."""
        return self.kernel.ctas if self.continued is None else self.continued.ctas * self.continued.boxes

    @property
    def is_even(self) -> bool:
        """Whether the sampled boxes of a continued grid lie where extrapolating the first ones puts them."""
        if self.continued is None or self.placed is None:
            return False
        bases = [use.base for path_class in self.placed for kind in path_class.masked for use in kind.uses]
        members = [kind.members for path_class in self.placed for kind in path_class.masked for use in kind.uses]
        table = np.zeros((self.followed_ctas, len(bases)), dtype=np.int64)
        for column, (base, those) in enumerate(zip(bases, members, strict=True)):
            table[those, column] = base
        return self.continued.is_even(table, self.firsts)

    def within_rows(self, rows: Mapping[int, Rows]) -> set[int]:
        """Numbers of the storages within whose rows boxes of a continued grid lie apart."""
        if self.continued is None:
            return set()
        uses = (use for path_class in self.everywhere for kind in path_class.masked for use in kind.uses)
        return {use.storage for use in uses if (self.continued.steps(use.base) % rows[use.storage].pitch).any()}

    @property
    def stored(self) -> frozenset[int]:
        """Numbers of the storages that it writes."""
        uses = (use for path_class in self.classes for kind in path_class.masked for use in kind.uses)
        return frozenset(use.storage for use in uses if use.kind != "load")


def trace(kernel: CompiledKernel, kept_bytes: float) -> Traced:
    """Follow the CTAs of a launch through its code.

    Args:
        kept_bytes: how much a CTA may move until L1 loses what it moved first [B].

    Raises:
        Refused: the launch cannot be traced; one line that names kernel and source line.
    """
    code = kernel.resources.code
    if code is None:
        raise Refused(f"kernel {kernel.name}: its machine code is not at hand")
    try:
        memory = Memory(kernel.storages)
        flow = flow_of(code.sass)
        unknown = find_unknown(flow, code.constants, memory)
        subject = TracedKernel(kernel=kernel, flow=flow, constants=code.constants, memory=memory, unknown=unknown)
        doubts = UnknownValues(subject, kept_bytes)
        code_slice = find_slice(subject)
        if (stored := find_sources(subject, code_slice)) is not None:
            subject = replace(subject, stored=stored)
            doubts, code_slice = UnknownValues(subject, kept_bytes), find_slice(subject)
        counts = count_blocks(subject, doubts)
        notes: list[str] = []
        classes = classes_of(subject, code_slice, counts, kept_bytes, doubts, notes)
        unequal = any(map(doubts.counter_places.get, doubts.counters.used)) and runs_unlike(classes)
        lower_bound = doubts.lower_bound or (bool(doubts.counters.used) and not unequal)
        barriers = barriers_of(subject, doubts, [path_class.representative for path_class in classes], notes)
        notes += notes_on_launch(subject, classes, doubts, lower_bound)
    except CannotFollow as error:
        raise Refused(f"kernel {kernel.name}: {kernel.where(error.address)}{error}") from error
    visited = {
        block
        for path_class in classes
        for warp in range(len(path_class.representative.paths.warps))
        for block, _ in path_class.representative.paths.executed(warp)
    }
    touching = {*code_slice.touching, *code_slice.copying}
    passed = {place for block in visited for place in code_slice.places[block] if place in touching}
    return Traced(
        kernel=kernel,
        classes=tuple(classes),
        instructions=sum(path_class.instructions for path_class in classes),
        known=len(passed - doubts.unknown_places),
        accesses=len(passed),
        read={number: memory.storages[number].name for number in sorted(memory.read)},
        notes=(*doubts.notes, *notes),
        lower_bound=lower_bound,
        estimated=frozenset(doubts.estimated_places & passed),
        requested=requested_bytes(classes, doubts.estimated_places),
        barriers=barriers,
    )


def launches_of(traced: Sequence[Traced]) -> list[Launch]:
    """Programs of launches that share memory: what one writes the next finds under the same name.

    Args:
        traced: in the order in which they run.
    """
    layout = Layout(traced)
    return [layout.launch_of(launch) for launch in traced]


class Layout:
    """How launches that follow each other see the storages that they share. Args: traced: in that order."""

    def __init__(self, traced: Sequence[Traced]) -> None:
        self.storages: dict[int, Storage] = {}
        for launch in traced:
            for storage in launch.kernel.storages:
                known = self.storages.setdefault(storage.number, storage)
                if storage.size_bytes > known.size_bytes:
                    self.storages[storage.number] = storage
        names = _names(self.storages)
        pieces: dict[int, list[Piece]] = {}
        for launch in traced:
            for path_class in launch.everywhere:
                for kind in path_class.masked:
                    for use in kind.uses:
                        pieces.setdefault(use.storage, []).extend(_pieces(use, path_class, self.storages))
        self.rows = {number: rows_of(self.storages[number].size_bytes, touching) for number, touching in pieces.items()}
        for launch in traced:
            # Where a grid goes on within rows, columns do not go on evenly: then all of the storage is one row.
            for number in launch.within_rows(self.rows):
                self.rows[number] = one_row(self.storages[number].size_bytes)
        inputs = _inputs(traced)
        self.tensors = {
            number: tensor_of(names[number], "input" if number in inputs else "output", self.storages[number], layout)
            for number, layout in self.rows.items()
        }

    def launch_of(self, traced: Traced) -> Launch:
        """The program of one of the launches."""
        return _launch(traced, self.storages, self.rows, self.tensors)


def _inputs(traced: Sequence[Traced]) -> set[int]:
    """Storages that are loaded before they are stored."""
    first: dict[int, tuple[tuple[int, int, int, int, bool], bool]] = {}
    for number, launch in enumerate(traced):
        for path_class in launch.classes:
            for kind in path_class.masked:
                for use in kind.uses:
                    loaded = use.kind == "load"
                    when = number, use.part[1] if use.part[0] < 0 else 0, use.part[0], use.phase, not loaded
                    first[use.storage] = min(first.get(use.storage, (when, loaded)), (when, loaded))
    return {number for number, (_, loaded) in first.items() if loaded}


def _names(storages: dict[int, Storage]) -> dict[int, str]:
    """A name of its own for each storage."""
    names: dict[int, str] = {}
    for number, storage in storages.items():
        taken = set(names.values())
        names[number] = storage.name if storage.name not in taken else f"{storage.name} ({number})"
    return names


def _pieces(use: AccessPattern, path_class: PathClass, storages: dict[int, Storage]) -> list[Piece]:
    address = storages[use.storage].address
    longest = int(path_class.trips[use.part[0]].per_round.max()) if use.strides else 1
    if use.uneven is not None:
        strides = () if use.uneven.stride is None else (use.uneven.stride,)
        return [
            Piece(rectangle=listing.piece, base=np.unique(listing.starts) - address, strides=strides, trips=longest)
            for listing in use.listings
            if len(listing.starts)
        ]
    base, trips = use.base + use.skipped_bytes - address, longest - use.first
    return [
        Piece(rectangle=rectangle, base=base, strides=use.strides, trips=trips) for rectangle in rectangles_of(use.runs)
    ]


def _launch(traced: Traced, storages: dict[int, Storage], rows: dict[int, Rows], tensors: dict[int, Tensor]) -> Launch:
    kernel = traced.kernel
    loads = loads_of_memory(traced.classes[0].representative.paths.flow, Memory(kernel.storages))
    variables = Variables(traced.followed_ctas)

    def tiles(use: AccessPattern, counters: tuple[str, ...], members: Array, begins: Array) -> list[Tile]:
        placed = Placed(
            tensor=tensors[use.storage].name,
            storage=storages[use.storage],
            rows=rows[use.storage],
            counters=counters,
            members=members,
            variables=variables,
        )
        if use.uneven is not None:
            return [listed_tile(listing, use, placed) for listing in use.listings if len(listing.starts)]
        return tiles_by_strides(use, placed, begins)

    nest = nest_of(list(traced.everywhere), variables, tiles)
    table = np.stack([*variables.columns.values()], axis=1)
    continued = traced.continued
    followed = kernel.ctas if continued is None else continued.ctas
    trips = {name: variables.columns[name][:followed] for name in _lengths(nest.body)}
    axes = [axis for axis in kernel.grid if axis > 1]
    program = TileProgram(
        tensors=tuple(tensors[number] for number in tensors if _touches(traced, number)),
        variables=tuple(variables.columns),
        items=continued.items(table) if continued else lambda indices: table[indices],
        item_count=kernel.ctas,
        period_items=kernel.ctas if _is_listed(nest.body) else period_of(trips, followed),
        body=running_ahead(tuple(nest.body), most_ahead(traced.barriers)),
        sweep_items=kernel.ctas // axes[-1] if len(axes) > 1 else 0,
    )
    return Launch(
        name=kernel.name,
        grid=kernel.grid,
        num_warps=kernel.num_warps,
        num_stages=kernel.num_stages,
        consumer_warps=kernel.num_warps if kernel.is_specialised else 0,
        program=program,
        resources=kernel.resources,
        dtype=dtype_of(traced.classes[0].representative.paths),
        traced=tuple(
            _code(path_class, phases, loads, barriers, traced.estimated)
            for path_class, phases, barriers in zip(traced.classes, nest.phases, traced.barriers, strict=True)
        ),
    )


def _code(
    path_class: PathClass,
    phases: Sequence[Phase],
    loads: Mapping[int, Effect],
    barriers: BarrierUses,
    estimated: frozenset[int],
) -> TracedCode:
    members = np.concatenate([kind.members for kind in path_class.masked])
    like = np.unique(members[(np.arange(LIKE) * 0.6180339887 % 1.0 * len(members)).astype(np.int64)])
    named: dict[tuple[int, int], tuple[str, ...]] = {}
    for phase in phases:
        named[phase.region, 0] = (*named.get((phase.region, 0), ()), phase.step)
    return TracedCode(
        cta=path_class.representative.cta,
        like=tuple(int(cta) for cta in like),
        paths=path_class.representative.blocks,
        phases=tuple(phases),
        executed=executions_of(path_class.representative.paths, named),
        in_l1=path_class.in_l1,
        scattered=scattered_lanes(path_class, estimated),
        box_bytes=_box_bytes(path_class),
        issued=path_class.issued,
        mbarriers=barriers.rings,
        barriers=barriers.named,
        loads=loads,
    )


def _box_bytes(path_class: PathClass) -> dict[int, float]:
    """What warps together copy by TMA at each place of the code, each time that it is run [B]."""
    moved: Counter[int] = Counter()
    visits: dict[int, set[int]] = defaultdict(set)
    for access in path_class.representative.accesses:
        if access.box is not None:
            moved[access.place] += access.box.descriptor.box_bytes
            visits[access.place].add(access.visit)
    return {place: total / len(visits[place]) for place, total in moved.items()}


def _is_listed(body: Sequence[Step | Loop]) -> bool:
    """Whether items have lists of their own: then they do unequal work."""
    return any(tile.is_gathered for step, _ in steps(tuple(body)) for tile in (*step.loads, *step.stores))


def _lengths(body: Sequence[object]) -> set[str]:
    """Variables that say how often loops run."""
    names: set[str] = set()
    for node in body:
        if hasattr(node, "trips"):
            names |= {node.trips} if isinstance(node.trips, str) else set()
            names |= _lengths(node.body)  # type: ignore[attr-defined]
    return names


def _touches(traced: Traced, number: int) -> bool:
    return any(
        use.storage == number for path_class in traced.classes for kind in path_class.masked for use in kind.uses
    )
