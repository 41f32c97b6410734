"""What an implementation declares: how it is called, what it supports, and how precisely it computes.

A function carries its declaration as a plain dict, so that it needs no import of this package:

    my_attention.softmax_laws = {"masking": "entries", "causal": "last", "dtypes": ["fp16", "bf16"]}

The command line adds to it (`--declare masking=none`). What is not declared has the default below,
or, where the default is None, is found by trying.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .formats import FORMATS, NUMPY_DTYPES, Format

ATTRIBUTE = "softmax_laws"
ADAPTERS = ("softmax", "attention", "merge", "streaming")
DTYPES = ("fp32", "fp64", "fp16", "bf16")
ALLOWED: Mapping[str, tuple[Any, ...]] = {
    "adapter": (None, *ADAPTERS),
    "arrays": (None, "numpy", "torch", "cuda"),
    "dtype": (None, *DTYPES),
    "rank": (None, 1, 2, 3, 4),
    "masking": ("rows", "entries", "none"),
    "nonfinite": ("propagate", "undefined"),
    "causal": (None, "none", "square", "first", "last"),
    "scale": ("sqrt", "one"),
    "lse": (None, "natural", "log2", "none"),
    "state": ("accumulated", "normalised"),
    "compute": (None, *FORMATS),
    "products": (None, *FORMATS),
    "weights": (None, *FORMATS),
}
"""Fields that hold one of a few words."""


FARTHEST_SCORE = 1e7
"""Beyond the -1e6 that some mask with. Not farther, since a maximum that is rounded once it is scaled, as in
FlashAttention-2, is then off by more than exp takes in fp32 and weights in fp16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A declaration; None means that the value is found by trying.

    Args:
        adapter: softmax `f(x)`, attention `f(q, k, v[, causal])`, merge `f(state, state)`, or streaming, a class.
        arrays: what it takes: numpy, torch (on the CPU) or cuda (torch on a GPU).
        dtype: element type under test; dtypes: those that it supports, the first where no dtype is asked for.
        rank: axes of its arrays; softmax 1 or 2 (rows), attention 2 (M, D), 3 (heads) or 4 (batch).
        masking: `rows`: scores may be -inf, whole rows too; `entries`: but no whole rows; `none`.
        nonfinite: `propagate`: NaN in, NaN out; `undefined`.
        causal: `none`, `square` (M = N only), `first` (row i sees keys to i) or `last` (to i + N - M).
        scale: attention divides scores by `sqrt` of D, or by `one`.
        lse: base of the LSE that it returns second: `natural`, `log2` or `none`.
        gradient: whether torch can differentiate it; deterministic: whether equal inputs give equal bits.
        state: merge: output as `accumulated` sum of weights times V, or `normalised` by the sum.
        observes: streaming: which of `max` and `sum` the object shows, (rows,) each.
        block: name of a parameter that sets the number of keys in a block; blocks: values to give it.
        shapes: pairs M, N to draw from, e.g. to spare a compiler; head_dims: values of D.
        compute: format of sums, maxima and exponentials; fp32, fp64 for fp64, where None.
        products: format that operands of both products are cut to, if narrower, as `tf32`; none where None.
        weights: format that weights are rounded to before they meet V; dtype for fp16 and bf16 attention where None.
        score_roundings: how often scores are rounded to dtype before the softmax.
        output_block: keys after which a partial output is rounded to dtype; 0 for once, at the end.
        largest_score: magnitude of scores up to which the implementation answers; `farthest_score` where None.
    """

    adapter: str | None = None
    arrays: str | None = None
    dtype: str | None = None
    dtypes: tuple[str, ...] = DTYPES
    rank: int | None = None
    masking: str = "rows"
    nonfinite: str = "propagate"
    causal: str | None = None
    scale: str = "sqrt"
    lse: str | None = None
    gradient: bool | None = None
    deterministic: bool = True
    state: str = "accumulated"
    observes: tuple[str, ...] | None = None
    block: str | None = None
    blocks: tuple[int, ...] = (16, 32, 64)
    shapes: tuple[tuple[int, int], ...] = ()
    head_dims: tuple[int, ...] = (16,)
    compute: str | None = None
    products: str | None = None
    weights: str | None = None
    score_roundings: int = 0
    output_block: int = 0
    largest_score: float | None = None

    def __post_init__(self) -> None:
        for name, allowed in ALLOWED.items():
            if getattr(self, name) not in allowed:
                words = ", ".join(str(word) for word in allowed if word is not None)
                raise ValueError(f"{name} = {getattr(self, name)!r}: must be one of {words}")
        for dtype in self.dtypes:
            if dtype not in DTYPES:
                raise ValueError(f"dtypes = {dtype!r}: must be of {', '.join(DTYPES)}")
        if not self.dtypes or (self.dtype and self.dtype not in self.dtypes):
            raise ValueError(f"dtype = {self.dtype!r}: the implementation supports {', '.join(self.dtypes) or 'none'}")
        if self.dtype and self.dtype not in NUMPY_DTYPES and self.arrays == "numpy":
            raise ValueError(f"dtype = {self.dtype!r}: numpy has no such type; arrays must be torch or cuda")
        if self.adapter == "merge" and self.dtype in ("fp16", "bf16"):
            raise ValueError(f"dtype = {self.dtype!r}: states are kept in fp32 or fp64")
        numbers = (*self.blocks, *self.head_dims, *(length for shape in self.shapes for length in shape))
        if any(type(number) is not int or number < 1 for number in numbers):
            raise ValueError("blocks, head_dims, shapes: must be whole numbers of 1 or more")
        if not self.blocks or not self.head_dims or any(len(shape) != 2 for shape in self.shapes):
            raise ValueError("blocks, head_dims, shapes: must be lists of numbers, numbers, and pairs M, N; not empty")
        if self.score_roundings < 0 or self.output_block < 0:
            raise ValueError(
                f"score_roundings = {self.score_roundings}, output_block = {self.output_block}: must be 0 or more"
            )
        if self.largest_score is not None and not 1 <= self.largest_score < FORMATS["bf16"].largest:
            raise ValueError(f"largest_score = {self.largest_score:g}: must be from 1 to 3e38")

    def allows(self, rows: int, keys: int) -> bool:
        """Whether the implementation takes that number of rows and keys."""
        return not self.shapes or (rows, keys) in self.shapes

    @property
    def farthest_score(self) -> float:
        """Magnitude of scores up to which the implementation is held to answer.

        As declared; else as far as the format goes that holds its scores, up to `FARTHEST_SCORE`.
        """
        if self.largest_score is not None:
            return self.largest_score
        held = self.inner if self.adapter == "attention" and not self.score_roundings else self.element
        return min(held.largest, FARTHEST_SCORE)

    @property
    def element(self) -> Format:
        """Format of inputs and outputs."""
        return FORMATS[self.dtype or self.dtypes[0]]

    @property
    def inner(self) -> Format:
        """Format of sums, maxima and exponentials."""
        return FORMATS[self.compute or ("fp64" if self.dtype == "fp64" else "fp32")]

    @property
    def operand(self) -> Format | None:
        """Format that operands of products are cut to; None where they are multiplied as they are."""
        chosen = FORMATS[self.products] if self.products else None
        return chosen if chosen and chosen.digits < self.element.digits else None

    @property
    def weight(self) -> Format:
        """Format that weights are rounded to before they meet V."""
        rounds = self.adapter in ("attention", "streaming") and self.dtype in ("fp16", "bf16")
        return (
            FORMATS[self.weights or self.dtype or "fp32"] if self.weights or rounds else self.operand or FORMATS["fp64"]
        )


def declared(function: object, **more: Any) -> Declaration:
    """The declaration of an implementation.

    Args:
        function: may carry a dict `softmax_laws`; more: what counts above it.

    Raises:
        ValueError: an unknown name, or a value that is not allowed; the text begins with the name.
    """
    carried = getattr(function, ATTRIBUTE, {})
    if not isinstance(carried, Mapping):
        raise ValueError(f"{ATTRIBUTE} = {carried!r}: must be a dict")
    known = {item.name: item for item in fields(Declaration)}
    values = {**carried, **{name: value for name, value in more.items() if value is not None}}
    for name in values:
        if name not in known:
            raise ValueError(f"{name}: no such declaration; there are {', '.join(known)}")
    try:
        return Declaration(**{name: _tupled(value) for name, value in values.items()})
    except TypeError as error:
        raise ValueError(f"{ATTRIBUTE} = {values!r}: a value is of the wrong type ({error})") from None


def _tupled(value: object) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list | tuple) else value


def parsed(text: str) -> tuple[str, Any]:
    """A declaration as typed, `name=value`: lists with commas, shapes as `1x1,33x65`, true and false.

    Raises:
        ValueError: it is none; the text is one line.
    """
    name, equals, word = text.partition("=")
    known = {
        item.name: item.type.__name__ if isinstance(item.type, type) else str(item.type) for item in fields(Declaration)
    }
    if not equals or name not in known:
        raise ValueError(f"{text!r}: must be NAME=VALUE, with a name of {', '.join(known)}")
    kind = known[name].removesuffix(" | None")
    try:
        if kind == "bool":
            return name, {"true": True, "false": False}[word.lower()]
        if kind == "tuple[tuple[int, int], ...]":
            return name, tuple(tuple(int(length) for length in pair.split("x")) for pair in word.split(","))
        if kind.startswith("tuple"):
            return name, tuple(int(part) if "int" in kind else part for part in word.split(","))
        return name, {"int": int, "float": float}.get(kind, str)(word)
    except (KeyError, ValueError):
        raise ValueError(f"{text!r}: {word!r} is no value for {name}") from None
