"""One input for an implementation, and the changes that a law makes to it.

Scores come as they are (`x`, rows and keys) or as products (`q`, `k`); values `v` are what weights are summed over.
All arrays are fp64 and hold numbers of the format under test, so an implementation gets exactly what the oracle gets.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .declaration import Declaration
from .formats import Array, rounded

ARRAYS = ("x", "q", "k", "v")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Case:
    """An input.

    Args:
        x: (R, N) scores; for softmax, merge and streaming.
        q: (H, M, D); k: (H, N, D); for attention.
        v: (N, D), or (H, N, D) for attention; None for softmax, whose weights are its output.
        causal: whether to ask for the causal mask, as `alignment` says: `square`, `first` or `last`.
        scale: factor of q k.
        cuts: first keys of all blocks but the first, for merge and streaming.
        code: array name -> expression that makes it again.
    """

    x: Array | None = None
    q: Array | None = None
    k: Array | None = None
    v: Array | None = None
    causal: bool = False
    alignment: str = "none"
    scale: float = 1.0
    cuts: tuple[int, ...] = ()
    code: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Case({', '.join(f'{name}={code}' for name, code in self.code.items())})"

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text(repr(self))

    @property
    def keys(self) -> int:
        """N."""
        return int(self.k.shape[1] if self.k is not None else self._x.shape[1])

    @property
    def _x(self) -> Array:
        assert self.x is not None
        return self.x

    @property
    def rows(self) -> int:
        """M, or R."""
        return int(self.q.shape[1] if self.q is not None else self._x.shape[0])

    def values(self) -> Array | None:
        """V (H, N, D); None for softmax."""
        return self.v if self.v is None or self.k is not None else self.v[None]

    def visible(self) -> NDArray[np.bool_]:
        """Which keys the causal mask lets a row see (M, N)."""
        if not self.causal:
            return np.ones((self.rows, self.keys), bool)
        offset = self.keys - self.rows if self.alignment == "last" else 0
        return np.arange(self.keys)[None, :] <= np.arange(self.rows)[:, None] + offset

    def scores(self) -> Array:
        """Scores (H, M, N); -inf where a key is hidden."""
        if self.q is None or self.k is None:
            return self._x[None]
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(self.visible(), (self.q @ self.k.transpose(0, 2, 1)) * self.scale, -np.inf)

    def magnitudes(self) -> Array | None:
        """Sums of |q k| behind the scores (H, M, N), which bound their errors; None where scores are given."""
        if self.q is None or self.k is None:
            return None
        return np.asarray((np.abs(self.q) @ np.abs(self.k).transpose(0, 2, 1)) * self.scale)

    def take(self, keys: Sequence[int] | NDArray[np.int64]) -> "Case":
        """The case with these keys, in this order; a key may come twice. Only without a causal mask."""
        picked = np.asarray(keys, np.int64)
        return replace(
            self,
            x=None if self.x is None else self.x[:, picked],
            k=None if self.k is None else self.k[:, picked],
            v=None if self.v is None else self.v[..., picked, :],
            cuts=tuple(cut for cut in self.cuts if cut < len(picked)),
        )

    def shifted(self, shift: float) -> "Case":
        """The case with `shift` added to x, or to all elements of k, which adds scale * sum(q) * shift to a row."""
        if self.k is not None:
            return replace(self, k=self.k + shift)
        return replace(self, x=self._x + shift)


def case_of(declaration: Declaration, *, causal: bool = False, cuts: Sequence[int] = (), **arrays: Any) -> Case:
    """A case for an implementation, its arrays rounded to the format under test.

    Args:
        arrays: `x`, `q`, `k`, `v`: arrays, or pairs of an array and the expression that makes it.
    """
    values: dict[str, Any] = {}
    code = {}
    for name, given in arrays.items():
        array, text = given if isinstance(given, tuple) else (given, "")
        if array is not None:
            values[name] = rounded(np.asarray(array, np.float64), declaration.dtype or declaration.dtypes[0])
            code[name] = text
    scale = 1.0
    if "q" in values and declaration.scale == "sqrt":
        scale = values["q"].shape[-1] ** -0.5
    alignment = declaration.causal or "none"
    return Case(**values, causal=causal, alignment=alignment, scale=scale, cuts=tuple(cuts), code=code)
