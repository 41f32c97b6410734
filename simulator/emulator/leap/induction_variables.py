"""How registers go on from iteration to iteration of a loop, as far as the last iterations tell."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..thread_values import WORD_MASK, Array, Value

AGREEING = 4
"""Steps of a register that have to be alike before it is taken to go on so."""
Registers = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class InductionVariable:
    """How a register goes on from iteration to iteration: round and round, and on by a step with each round.

    Args:
        values: of the last round, the present one last; step: of a round.
    """

    values: tuple[Array, ...]
    step: Array | None

    def ahead(self, iterations: int) -> Array:
        """Values of the next iterations, the present one first: (iterations, CTAs or 1, warps, lanes)."""
        rounds = len(self.values)
        number = np.arange(rounds - 1, rounds - 1 + iterations)
        values: Array = np.stack(np.broadcast_arrays(*self.values))[number % rounds]
        if self.step is None:
            return values
        ahead: Array = values + (number // rounds).reshape(-1, 1, 1, 1) * self.step & WORD_MASK
        return ahead


def courses_of(past: Sequence[Registers], names: Iterable[str]) -> dict[str, InductionVariable] | str:
    """Courses of registers that change; the name of one that has none yet.

    Args:
        past: registers at the begin of iterations, the present one last; names: of those that count.
    """
    courses: dict[str, InductionVariable] = {}
    for name in names:
        values = [registers[name] for registers in past if name in registers]
        if not values or all(value is values[-1] for value in values[-AGREEING:]):
            continue
        course = _course_of(values) if len(values) == len(past) else None
        if course is None:
            return name
        if len(course.values) > 1 or course.step is not None:
            courses[name] = course
    return courses


def _course_of(values: Sequence[Value]) -> InductionVariable | None:
    """The shortest round that the last values agree with."""
    if any(known is not values[-1][1] and not np.array_equal(known, values[-1][1]) for _, known in values):
        return None
    for rounds in range(1, len(values) - AGREEING + 1):
        step = _step(values[-1 - rounds][0], values[-1][0])
        if step is not None and all(
            (other := _step(values[at - rounds][0], values[at][0])) is not None and np.all(other == step)
            for at in range(-2, -1 - AGREEING, -1)
        ):
            return InductionVariable(tuple(value for value, _ in values[-rounds:]), step if step.any() else None)
    return None


def _step(first: Array, then: Array) -> Array | None:
    """From one value to another: words as numbers from -2^31 on, predicates 0; None where these differ."""
    if first.dtype == np.bool_ or then.dtype == np.bool_:
        same = first.dtype == then.dtype and not (first != then).any()
        return np.zeros((1, 1, 1), dtype=np.int64) if same else None
    step: Array = (then - first + (1 << 31) & WORD_MASK) - (1 << 31)
    return step


def extrapolate(now: dict[str, Value], first: Registers, steps: Array, pairs: Mapping[str, str]) -> None:
    """Set registers to their values some iterations on, as affine functions of the iteration.

    Args:
        now: registers after the second iteration, changed in place; first: after the first one;
        steps: iterations to go on from the first, int64 (CTAs, 1, 1);
        pairs: register of the lower word of an address -> that of its upper word.
    """
    carries: dict[str, Array] = {}
    for name, (array, known) in list(now.items()):
        if array.dtype == np.bool_ or known is not True or name not in first or first[name][1] is not True:
            continue
        stride = (array - first[name][0] + (1 << 31) & WORD_MASK) - (1 << 31)
        if not stride.any():
            continue
        total = first[name][0] + stride * steps
        now[name] = total & WORD_MASK, True
        carry = total >> 32
        if name in pairs and carry.any():
            carries[pairs[name]] = carry
    for name, carry in carries.items():
        # The upper word of an address is in the next register, which does not change by itself.
        if name in now and name in first and np.array_equal(now[name][0], first[name][0]):
            now[name] = now[name][0] + carry & WORD_MASK, now[name][1]
