"""Iterations side by side, as if each had threads of its own; and how many of them were guessed rightly."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..thread_values import Array, Known, Value, merged
from ..threads import Threads
from .induction_variables import InductionVariable, Registers


@dataclass(frozen=True, slots=True)
class Stack:
    """Iterations side by side: those of each CTA one after the other, along the first axis of arrays.

    Args:
        iterations: of them; ctas: that each has threads of.
    """

    iterations: int
    ctas: int

    def threads(self, threads: Threads, courses: Mapping[str, InductionVariable], names: frozenset[str]) -> Threads:
        """Threads of all iterations. Args: courses: as `courses_of`; names: registers that count, others are unset."""
        registers = {
            name: (self._ahead(courses[name]) if name in courses else self.repeated(array), self._known(known))
            for name, (array, known) in threads.registers.items()
            if name in names
        }
        special = {name: (self.repeated(array), self._known(known)) for name, (array, known) in threads.special.items()}
        return replace(threads, registers=registers, special=special, unknown_bits={}, images={})

    def repeated(self, array: Array) -> Array:
        """The same in all iterations. Args: array: (CTAs or 1, ...)."""
        return array if len(array) == 1 or self.ctas == 1 else np.tile(array, (self.iterations, 1, 1))

    def _known(self, known: Known) -> Known:
        return self.repeated(known) if np.ndim(known) == 3 and isinstance(known, np.ndarray) else known

    def _ahead(self, course: InductionVariable) -> Array:
        ahead = course.ahead(self.iterations)
        wide = np.broadcast_to(ahead, (self.iterations, self.ctas, *ahead.shape[2:]))
        return wide.reshape(-1, *ahead.shape[2:])

    def apart(self, array: Array) -> Array:
        """An axis more, in front, for iterations; of length 1 where all have the same. Args: array: of all of them."""
        count = self.iterations if len(array) == self.iterations * self.ctas else 1
        split: Array = array.reshape(count, -1, *array.shape[1:])
        return split

    def of(self, array: Array, iteration: int) -> Array:
        """What one iteration has: (CTAs or 1, ...)."""
        split = self.apart(array)
        chosen: Array = split[min(iteration, len(split) - 1)]
        return chosen

    def value_of(self, value: Value, iteration: int) -> Value:
        """The same of a register."""
        array, known = value
        return self.of(array, iteration), self.of(known, iteration) if np.ndim(known) == 3 else known  # type: ignore[arg-type]

    def settle(self, threads: Threads, registers: Registers, mask: Array, right: int) -> None:
        """Let threads go on from the last iteration that was right; others, which wait or are through, keep theirs.

        Args:
            registers: of all iterations at their end; mask: threads that made them.
        """
        for name, value in registers.items():
            ended = self.value_of(value, right - 1)
            threads.registers[name] = merged(mask, ended, threads.registers.get(name, ended))
            threads.unknown_bits.pop(name, None)

    def right(self, begun: Registers, ended: Registers, names: frozenset[str]) -> int:
        """Iterations that begin with what the one before leaves; the first does. Args: names: that count."""
        right = self.iterations
        for name in names:
            if name not in ended or ended[name] is begun.get(name):
                continue
            if name not in begun:
                return 1
            for before, after in zip(begun[name], ended[name], strict=True):
                if before is not after:
                    right = min(right, self._agreeing(np.asarray(before), np.asarray(after)))
        return right

    def _agreeing(self, begun: Array, ended: Array) -> int:
        if begun.ndim < 3 or ended.ndim < 3:
            return self.iterations if np.all(begun == ended) else 1
        first, last = self.apart(begun), self.apart(ended)
        differ = (first[1:] if len(first) > 1 else first) != (last[:-1] if len(last) > 1 else last)
        wrong = differ.reshape(len(differ), -1).any(axis=1)
        return 1 + int(wrong.argmax()) if wrong.any() else self.iterations

    def alike(self, mask: Array) -> int:
        """First iterations whose masks are the same. Args: mask: of all of them."""
        split = self.apart(mask)
        differ = (split != split[:1]).reshape(len(split), -1).any(axis=1)
        return int(differ.argmax()) if differ.any() else self.iterations
