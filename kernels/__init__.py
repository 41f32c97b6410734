"""Triton twins of the simulated schedules: one file per schedule, of the same name."""

from typing import Any


def __getattr__(name: str) -> Any:
    """`attention`, once it is asked for: importing this package imports neither torch nor triton."""
    if name == "attention":
        from .differentiable import attention

        return attention
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
