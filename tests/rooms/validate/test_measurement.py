"""Measurements as JSON: what is written is what is read."""

import json
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_up_measurements import MACHINE, a_timing
from tilesight.validate.measurement import (
    LaunchMeasurement,
    Lost,
    Machine,
    Measurement,
    Outcome,
    Timing,
    outcome_from_dict,
)

NUMBERS = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
COUNTS = st.integers(0, 1 << 50)
LINES = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=40)
TIMINGS = st.builds(
    Timing,
    l2=st.sampled_from(("cold", "warm")),
    **dict.fromkeys(("median_s", "low_s", "high_s", "confidence", "fastest_s", "slowest_s"), NUMBERS),
    samples=COUNTS,
    clock_hz=NUMBERS,
    cycles=NUMBERS,
    noise=st.sampled_from(("quiet", "noisy", "unstable")),
)
LAUNCHES = st.builds(
    LaunchMeasurement,
    name=LINES,
    grid=st.tuples(COUNTS, COUNTS, COUNTS),
    **dict.fromkeys(("num_warps", "registers_per_thread", "spilled_bytes_per_thread", "smem_bytes_per_cta"), COUNTS),
    counters=st.dictionaries(LINES, NUMBERS, max_size=4),
)
MEASUREMENTS = st.builds(
    Measurement,
    key=LINES,
    timing=st.none() | TIMINGS,
    launches=st.lists(LAUNCHES, max_size=3).map(tuple),
    peak_memory_bytes=COUNTS,
    oracle_error=NUMBERS | st.just(inf),
    doubts=st.lists(LINES, max_size=3).map(tuple),
    counters=LINES,
    spent_s=NUMBERS,
)


@given(outcome=MEASUREMENTS | st.builds(Lost, key=LINES, reason=LINES))
def test_an_outcome_survives_json(outcome: Outcome) -> None:
    """Bit for bit, in JSON that knows no infinity."""
    assert outcome_from_dict(json.loads(json.dumps(outcome.to_dict(), allow_nan=False))) == outcome


def test_a_machine_survives_json() -> None:
    """Every field."""
    assert Machine.from_dict(json.loads(json.dumps(MACHINE.to_dict()))) == MACHINE


@pytest.mark.parametrize("change", [{"median_s": None}, {"unheard": 1}])
def test_a_field_too_many_or_too_few_is_refused(change: dict[str, int | None]) -> None:
    """A file of another version does not pass for one of this."""
    entry = a_timing().to_dict() | change
    entry = {name: value for name, value in entry.items() if value is not None}
    with pytest.raises(TypeError):
        Timing.from_dict(entry)
