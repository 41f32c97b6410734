"""Configurations of Triton's, and those of a space around them."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from triton import Config

from .space import OPTIONS, Values, combinations, label_of


def points_of(configs: Sequence[Config], values: Values) -> list[Config]:
    """The configurations themselves, and each with every combination of values in it; equal ones once.

    Args:
        values: parameter -> values to try.
    """
    points = {text_of(config): config for config in configs}
    for config in configs:
        for combination in combinations(values) if values else ():
            point = with_values(config, combination)
            points.setdefault(text_of(point), point)
    return list(points.values())


def with_values(config: Config, values: Mapping[str, Any]) -> Config:
    """A configuration with other values; its hook stays."""
    other = copy(config)
    other.kwargs = {**config.kwargs, **{name: value for name, value in values.items() if name not in OPTIONS}}
    for name in values.keys() & set(OPTIONS):
        setattr(other, name, values[name])
    return other


def text_of(config: Config) -> str:
    """A configuration in a line, e.g. `BLOCK: 128, num_warps: 4`."""
    return label_of(config.all_kwargs())
