"""Kernels of a step in groups: by module, operation, kernel, source or phase; layers that are alike count as one."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from .operation import Operation
from .priced import KernelEstimate

Key = Literal["module", "op", "kernel", "source", "phase"]
KEYS: tuple[Key, ...] = ("module", "op", "kernel", "source", "phase")
NO_MODULE = "(no module)"
NUMBERED = re.compile(r"_\d+$")
"""What Inductor ends the names of its kernels with: a count, of which like kernels of two layers may have two."""
ALIKE = 0.5
"""Share of the modules that run below two layers, which have to be the same."""
VIEWS = frozenset(
    {
        "view",
        "_unsafe_view",
        "reshape",
        "permute",
        "transpose",
        "t",
        "expand",
        "unsqueeze",
        "squeeze",
        "slice",
        "select",
    }
)
"""Operations that move nothing, which fused kernels hold beside others."""


class Row(Protocol):
    """A kernel of an operation."""

    @property
    def operation(self) -> Operation:
        """That launches it."""

    @property
    def kernel(self) -> KernelEstimate:
        """What it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Kernels that have something in common.

    Args:
        name: what they have in common; `layers.*.mlp` of layers that are alike.
        modules: how many modules they are of; kernels, refused: how many there are, and of these without a price.
        time_s: of those with a price [s]; share: of the time of all, 0 to 1.
        hbm_bytes: read and written [B]; bound_by: what binds most of the time, empty where nothing is priced.
    """

    name: str
    modules: int
    kernels: int
    refused: int
    time_s: float
    share: float
    hbm_bytes: float
    bound_by: str

    def to_dict(self) -> dict[str, Any]:
        """Its object in `profile --json`."""
        return asdict(self)


def time_of(kernel: KernelEstimate) -> float:
    """What a kernel adds to the total: nothing, where it has no price [s]."""
    return 0.0 if kernel.source == "refused" else kernel.time_s


def bound_by(rows: Iterable[Row]) -> str:
    """What binds the kernels for most of their time; empty where none has a price."""
    times_s: dict[str, float] = defaultdict(float)
    for row in rows:
        if row.kernel.source != "refused":
            times_s[row.kernel.bound_by] += row.kernel.time_s
    return max(times_s, key=lambda name: times_s[name], default="")


def group_of(name: str, rows: Sequence[Row], total_s: float) -> Group:
    """The group of some rows. Args: total_s: time of all, of which shares are told [s]."""
    time_s = sum(time_of(row.kernel) for row in rows)
    return Group(
        name=name,
        modules=len({row.operation.module for row in rows}),
        kernels=len(rows),
        refused=sum(row.kernel.source == "refused" for row in rows),
        time_s=time_s,
        share=time_s / total_s if total_s else 0.0,
        hbm_bytes=sum(row.kernel.hbm_read_bytes + row.kernel.hbm_write_bytes for row in rows),
        bound_by=bound_by(rows),
    )


def grouped(rows: Sequence[Row], key: Key) -> tuple[Group, ...]:
    """The groups of a step's kernels, the longest first.

    Args:
        key: what the kernels of a group have in common.

    Raises:
        ValueError: there is no such key (one line).
    """
    if key not in KEYS:
        raise ValueError(f"by = {key!r}: must be one of {', '.join(KEYS)}")
    members: dict[str, list[Row]] = defaultdict(list)
    for row, module in zip(rows, joined_modules(rows), strict=True):
        members[named(row, key, module)].append(row)
    total_s = sum(time_of(row.kernel) for row in rows)
    groups = [group_of(name, some, total_s) for name, some in members.items()]
    return tuple(sorted(groups, key=lambda group: -group.time_s))


def named(row: Row, key: Key, module: str) -> str:
    """What a row's group is called. Args: module: as `joined_modules` has it."""
    match key:
        case "module":
            return module or NO_MODULE
        case "op":
            return operation_text(row.operation)
        case "kernel":
            return row.kernel.name
        case "source":
            return row.kernel.source
        case "phase":
            return row.operation.phase


def operation_text(operation: Operation) -> str:
    """An operation of torch by its name; a Triton kernel by the operations that it holds, e.g. `add + gelu`."""
    parts = [part for part in operation.parts if part not in VIEWS]
    return " + ".join(parts or operation.parts) or operation.name


def joined_modules(rows: Sequence[Row]) -> list[str]:
    """The module of each row, with a star for the number of layers that are alike.

    `layers.0.mlp` and `layers.1.mlp` are `layers.*.mlp` where mostly the same modules run below `layers.0` and
    `layers.1`: what a compiler joins across layers makes the first and the last differ. Where nothing is below them, as
    in a sequence of linear layers, they are alike where they do the same.
    """
    paths = [row.operation.module.split(".") for row in rows]
    doing = [
        (row.operation.kind, NUMBERED.sub("", row.operation.name), row.operation.parts, row.operation.phase)
        for row in rows
    ]
    for depth in range(max(map(len, paths), default=0)):
        lists: dict[tuple[str, ...], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for place, path in enumerate(paths):
            if len(path) > depth and path[depth].isdecimal():
                lists[tuple(path[:depth])][path[depth]].append(place)
        for layers in lists.values():
            below = {number: {tuple(paths[place][depth + 1 :]) for place in layers[number]} for number in layers}
            if any(names != {()} for names in below.values()):
                alike = _alike(below)
            else:
                alike = _same({number: tuple(doing[place] for place in layers[number]) for number in layers})
            for place in [place for number in alike for place in layers[number]]:
                paths[place][depth] = "*"
    return [".".join(path) for path in paths]


def _alike(below: Mapping[str, Set[tuple[str, ...]]]) -> list[str]:
    """Layers below which mostly the same modules run as below most of them; none, where that is one alone."""
    usual, _ = Counter(map(frozenset, below.values())).most_common(1)[0]
    alike = [number for number, names in below.items() if len(names & usual) > ALIKE * len(names | usual)]
    return alike if len(alike) > 1 else []


def _same(does: Mapping[str, tuple[Any, ...]]) -> list[str]:
    """Layers that do what another one does."""
    counts = Counter(does.values())
    return [number for number in does if counts[does[number]] > 1]
