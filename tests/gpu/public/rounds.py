"""The rounds of cases: those of a round are predicted and committed before any of them is measured."""

import importlib
from collections.abc import Sequence

from launching import CASES, Case

KINDS = ("rows", "sampling", "recurrent", "attention", "matrices", "experts")
ROUNDS = {
    1: ("rows", "losses", "recurrent", "attention", "matrices", "calibration"),
    2: ("second_round.rows", "second_round.recurrent", "second_round.attention", "second_round.matrices"),
    3: tuple(f"third_round.{name}" for name in KINDS),
    4: tuple(f"fourth_round.{name}" for name in KINDS),
    5: tuple(f"fifth_round.{name}" for name in KINDS),
    6: tuple(f"sixth_round.{name}" for name in KINDS),
}
"""Modules that enter the cases of a round."""


def cases_of(rounds: Sequence[int], parts: Sequence[str] = ()) -> dict[str, Case]:
    """Cases of some rounds, by name. Args: parts: of names, of which one must occur; all cases where there is none."""
    for number in rounds:
        for module in ROUNDS[number]:
            importlib.import_module(module)
    chosen = (case for case in CASES.values() if case.round in rounds)
    return {case.name: case for case in chosen if not parts or any(part in case.name for part in parts)}
