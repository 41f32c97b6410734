"""The laws bite: a planted mistake is seen by the law that is there to see it, with the default number of inputs."""

import os

import pytest
from laws.softmax_mutants import MUTANTS, Mutant
from tilesight.softmax_laws import fit
from tilesight.softmax_laws.run.hunt import LAWS, find_law, hunt

SEEDS = range(int(os.environ.get("TILESIGHT_SOFTMAX_SEEDS", "1")))
"""20 for the long run: TILESIGHT_SOFTMAX_SEEDS=20 pytest tests/laws/test_softmax_mutants.py."""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.where}: {mutant.name}")
def test_a_mutant_is_killed(mutant: Mutant, seed: int) -> None:
    """By the law that it names; if it lives, that law would let the same mistake through in a user's kernel."""
    result = hunt(find_law(mutant.law), fit(mutant.build(), dtype=mutant.dtype), seed=seed, shrink=False)
    assert result.outcome == "failed", f"lives after {result.examples} inputs"


def test_there_are_mutants_enough_and_each_is_another() -> None:
    """Thirty at least, for all four adapters, and none twice against the same law."""
    assert len({(mutant.where, mutant.old, mutant.new, mutant.law) for mutant in MUTANTS}) == len(MUTANTS) >= 30
    assert {mutant.where for mutant in MUTANTS} == {"softmax", "attention", "merge", "Stream"}


def test_every_law_kills_a_mutant() -> None:
    """A law that kills none might be one that cannot fail; that of gradients has mutants in torch."""
    assert {mutant.law for mutant in MUTANTS} == {law.name for law in LAWS} - {"gradients"}


def test_a_mutant_that_changes_nothing_is_refused() -> None:
    """A piece that is no longer in the example would leave it correct, and the test of its death in the dark."""
    with pytest.raises(ValueError, match="stands 0 times"):
        Mutant(where="merge", name="x", old="not there", new="", law="oracle", dtype="fp32").source()
