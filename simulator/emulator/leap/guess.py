"""What is guessed of a loop: how its registers go on, and for how many iterations at a time."""

import numpy as np

from ..thread_values import Array
from .induction_variables import AGREEING, InductionVariable, Registers, courses_of
from .stack import Stack

MOST_THREADS = 1 << 17
"""Threads of all iterations of a leap: their state stays in the caches of the host's processor."""
FIRST_LEAP, GROWTH, FEWEST = 32, 4, 3
"""Iterations of the first leap of a loop; each that is right makes the next so many times as long, since a leap takes
about as long whatever its length. Fewer than the fewest were in vain."""
MOST_IN_VAIN = 8
"""Leaps in vain after each other after which a loop is given up."""
REMEMBERED = 12
"""Iterations whose registers are kept: rings of up to eight stages show in them."""


class Guess:
    """A guess about a loop.

    Args:
        names: registers that count at its header; ctas: whose threads there are;
        apart: whether what the loop does may differ among CTAs whose registers are the same.
    """

    def __init__(self, names: frozenset[str], ctas: int, apart: bool = True) -> None:
        self.names, self._ctas, self._apart = names, ctas, apart
        self._size, self._in_vain = FIRST_LEAP, 0
        self._past: list[Registers] = []
        self._leapt: tuple[Stack, Registers, int] | None = None
        self._mask: Array | None = None
        self._order = sorted(names)

    def forget(self) -> None:
        """Threads come to the loop anew."""
        self._past, self._leapt = [], None

    def leap(
        self, registers: Registers, mask: Array, most: int = 1 << 20
    ) -> tuple[dict[str, InductionVariable], Stack] | None:
        """How registers go on, and iterations to look at; None where that is not told, or saves nothing.

        Args:
            registers, mask: at the begin of an iteration; most: iterations.
        """
        if self._in_vain >= MOST_IN_VAIN:
            return None
        if self._leapt:
            # Most loops are over after their longest leap: then nobody asks for what was in between.
            self._past, self._leapt = [*self._past, *_between(*self._leapt)][-REMEMBERED:], None
        if self._mask is None or not equal(self._mask, mask):
            self._past = []
        here = {name: registers[name] for name in self.names if name in registers}
        self._mask, self._past = mask, [*self._past[1 - REMEMBERED :], here]
        if len(self._past) <= AGREEING:
            return None
        # What the last iteration has computed is as wide as what the next ones will.
        widest = max((array.size for array, _ in registers.values() if len(array) == self._ctas), default=1)
        iterations = min(self._size, MOST_THREADS // widest, most)
        if iterations <= FEWEST:
            return None
        courses = courses_of(self._past, self._order)
        if not isinstance(courses, str):
            alike = (
                not self._apart
                and len(mask) == 1
                and all(known is True and len(array) == 1 for array, known in here.values())
            )
            return courses, Stack(iterations, 1 if alike else self._ctas)
        # What has no course now has none for some time: it is looked at first.
        self._order.remove(courses)
        self._order.insert(0, courses)
        return None

    def learn(self, stack: Stack, begun: Registers, right: int) -> None:
        """Take down what a leap came to. Args: begun: registers of all iterations; right: iterations that were."""
        self._in_vain = 0 if right >= FEWEST else self._in_vain + 1
        self._size = GROWTH * stack.iterations if right == stack.iterations else max(FIRST_LEAP, right + 1)
        self._past, self._leapt = (self._past, (stack, begun, right)) if right else ([], None)


def _between(stack: Stack, begun: Registers, right: int) -> list[Registers]:
    """Registers at the begin of the last iterations of a leap but the first. Args: as of `Guess.learn`."""
    return [
        {name: stack.value_of(value, number) for name, value in begun.items()}
        for number in range(max(1, right - REMEMBERED), right)
    ]


def equal(mask: Array, other: Array) -> bool:
    """Whether masks are the same."""
    return mask is other or bool(np.all(mask == other))
