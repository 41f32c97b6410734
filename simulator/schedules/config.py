"""A configuration: the choices of a schedule that do not change what it computes, by name."""

from collections.abc import Mapping
from typing import Any

from ..arguments import plain_number


class Config:
    """Options of a schedule with their values, e.g. `Config(block_m=64, num_warps=4)`; a frozen value.

    What is not named is left to the schedule: `Config()` is its default, and `Config(block_m=64)` its default but for
    the rows. Names and values are checked by the schedule that is to run it (`Schedule.checked`); which options a
    schedule takes, `tilesight.all_schedules()[name].options` tells. The configuration of a `Prediction` or a
    `Candidate` has them all. Options that several schedules take:

        block_m, block_n    rows and columns of a tile of scores
        num_warps           warps of a CTA; num_stages: tiles that a pipelined loop loads ahead, as in Triton
        cta_order           which CTAs follow each other; kv_order: how they walk K and V
        persistent          CTAs per SM of a persistent grid
        warp_split          how warps divide a tile product
    """

    __slots__ = ("_values",)
    _values: Mapping[str, Any]

    def __init__(self, **chosen: Any) -> None:
        values = {name: plain_number(value) for name, value in chosen.items()}
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(
                f"{name}: this configuration does not name it; it names {list(self._values)}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{name}: a configuration is never changed; make another with but({name}={value!r})")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name}: a configuration is never changed")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in self._values.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (dict(self._values),)

    def but(self, **changed: Any) -> "Config":
        """The same with some options changed or added."""
        return Config(**{**self._values, **changed})

    def named(self) -> dict[str, Any]:
        """The options that have a value, with their values."""
        return dict(self._values)


def _remade(values: dict[str, Any]) -> Config:
    return Config(**values)
