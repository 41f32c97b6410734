"""What the CTAs of a launch do, tile by tile, read off Triton's first IR and the launch's numbers: nothing is compiled.

Trip counts, conditions and early ends are computed for some CTAs; of an unknown condition both sides count.
Source: what Triton 3.4 to 3.6 print of the dialects tt, scf, cf and arith.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ...simulator.emulator.storage import Storage

SAMPLED = 64
"""CTAs that are looked at, spread evenly over the grid."""
Array = Any
"""A number of each of these CTAs, or one of all."""
FUNCTION = re.compile(r'^  tt\.func \w+ @(?:"([^"]*)"|([\w$.]+))\((.*)\n((?:(?!  \}).*\n)*)', re.M)
PARAMETER = re.compile(r"(%[\w$.-]+): ")
CALLED = re.compile(r' @(?:"([^"]*)"|([\w$.]+))')
OPERATION = re.compile(r'^ *(?:(%[\w$.-]+)(?::\d+)? = )?"?([a-z]+\.[\w.]+|\}|\^\w+)"?(.*?)(?: loc\(.*)?$', re.M)
TENSOR = re.compile(r"tensor<((?:\d+x)+)([^<>]*(?:<[^<>]*>)?)>")
VALUE, LABEL = re.compile(r"%[\w$.-]+"), re.compile(r"\^\w+")
CONSTANT = re.compile(r" (-?\d+|true|false)(?: : i\w+)?$")
STAGES = re.compile(r"tt\.num_stages = (\d+)")
COMPUTED: dict[str, Callable[..., Array]] = {
    "addi": np.add, "subi": np.subtract, "muli": np.multiply, "andi": np.bitwise_and, "ori": np.bitwise_or,
    "divi": lambda a, b: np.trunc(a / np.where(b, b, 1)).astype(np.int64),
    "remi": lambda a, b: np.fmod(a, np.where(b, b, 1)), "mini": np.minimum, "maxi": np.maximum, "select": np.where,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
"""What computes scalars; signed or not."""
SIGN = re.compile(r"^[su](?=[lg][te]$)|(?<=^div|^rem|^min|^max)[su](?=i$)")
SAME = frozenset({"extsi", "extui", "trunci", "bitcast", "index_cast"})
LOADS = frozenset({"tt.load", "tt.descriptor_load", "tt.descriptor_gather"})
STORES = frozenset(
    {"tt.store", "tt.descriptor_store", "tt.descriptor_reduce", "tt.descriptor_scatter", "tt.atomic_rmw"}
)
SPECIAL = re.compile(r"math\.(exp|log|sqrt|rsqrt|sin|cos|erf)|arith\.divf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A product of tiles, `m x k` by `k x n`. Args: times: in a CTA; kind: of an element, as in the IR."""

    times: float
    m: int
    n: int
    k: int
    kind: str


@dataclass(slots=True, kw_only=True)
class Loop:
    """A loop.

    Args:
        loaded_bytes: by an iteration [B]; products: in it; stages: that the code asks for, 0: it does not.
        held_bytes: of tiles that are handed to the next iteration, and of products that are not added to these [B].
    """

    loaded_bytes: float = 0.0
    products: int = 0
    stages: int = 0
    held_bytes: float = 0.0


@dataclass(slots=True, kw_only=True)
class Tiles:
    """What a CTA does, in the mean of those looked at.

    Args:
        ctas: of the grid; dots: products; loops: the first stands for what is in none.
        loaded_bytes, stored_bytes: of device memory [B].
        results: of floating-point operations; special: of these exponentials, roots and quotients.
        widest_bytes: the largest tile of results [B].
    """

    ctas: int
    dots: list[Dot] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=lambda: [Loop()])
    loaded_bytes: float = 0.0
    stored_bytes: float = 0.0
    results: float = 0.0
    special: float = 0.0
    widest_bytes: float = 0.0


class Untold(ValueError):
    """The IR does not tell how long a loop is."""


def tiles_of(
    ir: str, grid: tuple[int, int, int], arguments: Mapping[str, int | float], storages: Sequence[Storage]
) -> Tiles | None:
    """What a CTA of a launch does; None where the IR does not tell. Args: as of `compile.call.KernelLaunch`."""
    functions = {match[1] or match[2]: _Function(*match.groups()[2:]) for match in FUNCTION.finditer(ir)}
    if not functions:
        return None
    walk, kernel = _Walk(functions, grid, storages), next(iter(functions.values()))
    given = {name: arguments.get(name[1:]) for name in kernel.parameters}
    frame = _Frame(walk, kernel, {name: np.int64(it) if isinstance(it, int) else None for name, it in given.items()})
    try:
        walk.run(frame, np.ones(len(walk.places["x"])))
    except Untold:
        return None
    return walk.tiles


class _Function:
    """A function of the IR, as text."""

    def __init__(self, header: str, body: str) -> None:
        self.parameters = PARAMETER.findall(header)
        self._body = body

    @cached_property
    def operations(self) -> list[tuple[str, str, str]]:
        """(what it defines, operation, the rest of the line) in order."""
        return OPERATION.findall(self._body)

    @cached_property
    def defined(self) -> dict[str, tuple[str, str]]:
        """Value -> operation, the rest of the line."""
        return {name: (operation, rest) for name, operation, rest in self.operations if name}

    @cached_property
    def summed(self) -> set[str]:
        """Values that are added to others: the compiler has the product itself add to these."""
        return {name for _, operation, rest in self.operations if operation == "arith.addf" for name in _values(rest)}

    def is_carried(self, name: str) -> bool:
        """Whether a tile is made of one that an iteration hands to the next."""
        operation, rest = self.defined.get(name, ("", ""))
        return not operation or (operation.startswith("arith.") and any(map(self.is_carried, _values(rest))))


class _Frame:
    """A function at work. Args: known: values of its parameters, of variables of loops, and what was computed."""

    def __init__(self, walk: "_Walk", function: _Function, known: dict[str, Array | None]) -> None:
        self.walk, self.function, self.known = walk, function, known

    def value(self, name: str) -> Array | None:
        """A scalar in each of the CTAs looked at; None where unknown."""
        if name not in self.known:
            self.known[name] = self._computed(*self.function.defined.get(name, ("", "")))
        return self.known[name]

    def _computed(self, operation: str, rest: str) -> Array | None:
        dialect, _, kind = operation.partition(".")
        if "tensor<" in rest:
            return None
        if constant := CONSTANT.match(rest):
            return np.int64(constant[1] == "true" if constant[1].isalpha() else int(constant[1]))
        if operation in ("tt.get_program_id", "tt.get_num_programs"):
            axis = rest.split()[0]
            return self.walk.places[axis] if kind == "get_program_id" else np.int64(self.walk.grid[axis])
        given: list[Any] = [self.value(name) for name in _values(rest)]
        if operation == "tt.call":
            return self.walk.returned(rest, given)
        if not given or any(value is None for value in given):
            return None
        if operation in ("tt.addptr", "tt.load"):
            size_bytes = _bits(rest.partition(" : ")[2]) // 8
            return given[0] + given[1] * size_bytes if kind == "addptr" else self.walk.read(given[0], size_bytes)
        if kind in SAME:
            return given[0]
        compute = COMPUTED.get(SIGN.sub("", rest.split(",")[0].strip() if kind == "cmpi" else kind))
        return compute(*given) if compute and dialect == "arith" else None


class _Walk:
    """All of a launch. Args of its results: tiles: what a CTA does; places: CTA numbers of those looked at, by axis."""

    def __init__(
        self, functions: Mapping[str, _Function], grid: tuple[int, int, int], storages: Sequence[Storage]
    ) -> None:
        self._functions, self._storages = functions, storages
        self.grid = dict(zip("xyz", grid, strict=True))
        self.tiles = Tiles(ctas=prod(grid))
        sampled = np.unique(np.linspace(0, self.tiles.ctas - 1, SAMPLED).round().astype(np.int64))
        x, y, _ = grid
        self.places = {"x": sampled % x, "y": sampled // x % y, "z": sampled // (x * y)}
        self._loops = [self.tiles.loops[0]]

    def _called(self, rest: str, given: Sequence[Array | None]) -> _Frame:
        match: Any = CALLED.match(rest)
        function = self._functions[match[1] or match[2]]
        return _Frame(self, function, dict(zip(function.parameters, given, strict=True)))

    def returned(self, rest: str, given: Sequence[Array | None]) -> Array | None:
        """The scalar that a called function returns, where there is one way through it."""
        frame = self._called(rest, given)
        kinds = [operation for _, operation, _ in frame.function.operations]
        if "cf.cond_br" in kinds or "tt.return" not in kinds:
            return None
        return frame.value(_values(frame.function.operations[kinds.index("tt.return")][2])[0])

    def read(self, addresses: Array, size_bytes: int) -> Array | None:
        """Whole numbers from memory whose values are given."""
        for storage in self._storages:
            data = np.frombuffer(storage.values or storage.fill * 8, dtype=np.uint8)
            offsets = addresses - storage.address
            if len(data) >= size_bytes > 0 and bool(np.all((offsets >= 0) & (offsets < storage.size_bytes))):
                words = data[: len(data) // size_bytes * size_bytes].view(f"i{size_bytes}")
                return words[offsets // size_bytes % len(words)].astype(np.int64)
        return None

    def run(self, frame: _Frame, weights: Array) -> None:
        """Count what a function does. Args: weights: how often each of the CTAs looked at comes to it."""
        labels: dict[str, Array] = {}
        open_: list[tuple[str, Array, Array]] = []  # kind of a region, weights behind it, weights of its `else`
        for name, operation, rest in frame.function.operations:
            if operation == "}":
                kind, behind, other = open_.pop()
                if kind == "scf.for":
                    loop = self._loops.pop()
                    loop.stages = int(asked[1]) if (asked := STAGES.search(rest)) else 0
                weights = behind
                if rest.lstrip().startswith("else"):
                    open_.append(("else", behind, behind))
                    weights = other
            elif open_ and open_[-1][0] == "({":  # what reduces
                continue
            elif operation[0] == "^":
                weights = labels.get(operation, np.zeros_like(weights))
            elif operation in ("scf.if", "cf.cond_br", "cf.br"):
                known = frame.value(_values(rest)[0]) if operation != "cf.br" else None
                ways = (weights, weights) if known is None else (weights * known, weights * (1 - known))
                for label, way in zip(LABEL.findall(rest), ways, strict=False):
                    labels[label] = labels.get(label, 0.0) + way
                if operation == "scf.if":
                    open_.append((operation, weights, ways[1]))
                    weights = ways[0]
            elif operation == "scf.for":
                open_.append((operation, weights, weights))
                weights = weights * self._enter(frame, rest)
            elif operation == "scf.while":
                raise Untold
            elif operation == "tt.call" and "tensor<" in rest:
                self.run(self._called(rest, [frame.value(it) for it in _values(rest)]), weights)
            else:
                if "tensor<" in rest:
                    self._count(frame.function, name, operation, rest, float(weights.mean()))
                if rest.endswith("({"):
                    open_.append(("({", weights, weights))

    def _enter(self, frame: _Frame, rest: str) -> Array:
        """Iterations of a loop, whose variable is in its middle from here on."""
        names = VALUE.findall(rest)
        low, high, step = (frame.value(name) for name in names[1:4])
        if low is None or high is None or step is None:
            raise Untold
        trips = np.maximum(0, -(-(high - low) // np.maximum(step, 1)))
        frame.known[names[0]] = low + trips // 2 * step
        handed = [size for size, kind in _tensors(rest.partition("->")[2]) if kind[0] in "fb"]
        self._loops.append(Loop(held_bytes=sum(handed)))
        self.tiles.loops.append(self._loops[-1])
        return trips

    def _count(self, function: _Function, name: str, operation: str, rest: str, times: float) -> None:
        """Count an operation. Args: times: in a CTA."""
        tiles, loop = self.tiles, self._loops[-1]
        size_bytes, kind = _tensors(rest)[-1]
        if operation in LOADS:
            tiles.loaded_bytes += times * size_bytes
            loop.loaded_bytes += size_bytes
        elif operation in STORES:
            tiles.stored_bytes += times * size_bytes
        elif operation.startswith("tt.dot"):
            (a, element), (b, _) = (TENSOR.findall(side)[0] for side in rest.split(" * "))
            *batch, m, k = map(int, a[:-1].split("x"))
            element = "" if "= ieee" in rest and element == "f32" else element
            tiles.dots.append(Dot(times=times * prod(batch), m=m, n=int(b[:-1].split("x")[-1]), k=k, kind=element))
            loop.products += 1
            if name not in function.summed and not function.is_carried(_values(rest)[-1]):
                loop.held_bytes += size_bytes
        elif operation.startswith(("arith.", "math.")) and kind[0] in "fb" and operation != "arith.constant":
            results = times * size_bytes * 8 / _bits(kind)
            tiles.results += results
            tiles.special += results if SPECIAL.match(operation) else 0.0
            tiles.widest_bytes = max(tiles.widest_bytes, size_bytes)


def _values(rest: str) -> list[str]:
    """Operands of an operation."""
    return VALUE.findall(rest.split(" : ")[0])


def _tensors(text: str) -> list[tuple[float, str]]:
    """Sizes [B] and elements of the tensors that a text names; one of pointers is as large as what they lead to."""
    sizes = [(prod(map(int, shape[:-1].split("x"))), kind) for shape, kind in TENSOR.findall(text)]
    return [(count * _bits(kind) / 8, kind) for count, kind in sizes]


def _bits(kind: str) -> int:
    """Size of an element, or of what a pointer leads to [bit]."""
    match = re.search(r"[a-z](\d+)", kind)
    return int(match[1]) if match else 64
