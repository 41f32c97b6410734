"""The rounds of cases: those of a round are predicted and committed before any of them is measured."""

import importlib
from collections.abc import Sequence
from pathlib import Path

from launching import CASES, FOLDERS, Case

KINDS = ("rows", "losses", "sampling", "recurrent", "attention", "matrices", "experts")
ROUNDS = {
    number: tuple(f"{folder}.{kind}" for kind in KINDS if (Path(__file__).parent / folder / f"{kind}.py").exists())
    for number, folder in FOLDERS.items()
}
"""Modules that enter the cases of a round, in the order of `KINDS`."""


def cases_of(rounds: Sequence[int], parts: Sequence[str] = ()) -> dict[str, Case]:
    """Cases of some rounds, by name. Args: parts: of names, of which one must occur; all cases where there is none."""
    for number in rounds:
        for module in ROUNDS[number]:
            importlib.import_module(module)
    chosen = (case for case in CASES.values() if case.round in rounds)
    return {case.name: case for case in chosen if not parts or any(part in case.name for part in parts)}
