"""Laws of partial states: the running maximum, the sum, merging, and parts fed and joined in any order."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import seed as seeded
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from ..call.adapters import State, blocks, empty_state, finished, forward, merged, state_of
from ..call.calls import Subject
from ..declare.case import Case
from ..declare.declaration import Declaration
from ..draw.inputs import Ease, Wanted, cases
from .law import Law, compare, lse_bound, near, needs_lse, no_knob, with_knob
from .oracle import truth
from .parts import Parts, replay

MOST_PARTS = 4


def _no_maximum(declaration: Declaration) -> str | None:
    shown = declaration.adapter == "merge" or "max" in (declaration.observes or ())
    return None if shown else "it shows no running maximum (a streaming object may, as `max`)"


def _steps(case: Case) -> list[list[Any]]:
    """All blocks of a case into one part."""
    return [["start"], *(["feed", 0, list(range(block.start, block.stop))] for block in blocks(case))]


def _maximum(subject: Subject, case: Case, _knob: Any) -> None:
    replay(subject, case, _steps(case))


def _no_sum(declaration: Declaration) -> str | None:
    shown = declaration.adapter == "merge" or "sum" in (declaration.observes or ())
    return None if shown or not needs_lse(declaration) else "it shows neither a sum nor an LSE"


def _positive_sum(subject: Subject, case: Case, _knob: Any) -> None:
    """The largest key has the weight exp(0) = 1, and n keys n at most: max <= LSE <= max + log(n)."""
    if subject.declaration.adapter in ("merge", "streaming"):
        replay(subject, case, _steps(case))
    output, true = forward(subject, case), truth(case, subject.declaration)
    if output.lse is not None:
        top = case.scores().max(axis=-1)
        inside = np.clip(np.where(np.isnan(output.lse), top, output.lse), top, top + np.log(case.keys))
        near(output.lse, inside, lse_bound(true, output), "LSE, outside max to max + log(n),")


def _no_merge(declaration: Declaration) -> str | None:
    return None if declaration.adapter == "merge" else "it merges no states (adapter merge)"


def _state_law(
    first: Callable[[Subject, list[State]], State], second: Callable[[Subject, list[State]], State], what: str
) -> Callable[[Subject, Case, Any], None]:
    """A law by which two ways to merge the states of a case's three blocks give the same output, LSE, max and sum."""

    def check(subject: Subject, case: Case, knob: list[int]) -> None:
        assert case.x is not None and case.v is not None
        low, high = sorted(knob)
        parts = [slice(0, low), slice(low, high), slice(high, case.keys)]
        empty = empty_state(case.x.shape[0], case.v.shape[1])
        states = [
            state_of(case.x[:, part], case.v[part], subject.declaration) if part.stop > part.start else empty
            for part in parts
        ]
        left, right = first(subject, states), second(subject, states)
        true = truth(case, subject.declaration)
        near(left[0], right[0], 0.0, f"{what}: maximum")
        a, b = (finished(state, subject.declaration) for state in (left, right))
        near(a.o, b.o, 2 * true.o_bound, f"{what}: output")
        assert a.lse is not None and b.lse is not None
        near(a.lse, b.lse, 2 * lse_bound(true, a), f"{what}: LSE")

    return check


def _draw_three(_declaration: Declaration, case: Case) -> st.SearchStrategy[Any]:
    place = st.integers(0, case.keys)
    return st.tuples(place, place).map(list)


def _identity(subject: Subject, case: Case, _knob: Any) -> None:
    """The state of no keys changes no state on either side, and two of them make one."""
    assert case.x is not None and case.v is not None
    empty, state = empty_state(case.x.shape[0], case.v.shape[1]), state_of(case.x, case.v, subject.declaration)
    true = truth(case, subject.declaration)
    for side, pair in (("right", (state, empty)), ("left", (empty, state))):
        state_of_both = merged(subject, *pair)
        near(state_of_both[0], state[0], 0.0, f"merged with the state of no keys on the {side}: maximum")
        compare(finished(state_of_both, subject.declaration), true)
    nothing = merged(subject, empty, empty)
    for name, found_part, part in zip(("maximum", "sum", "output"), nothing, empty, strict=True):
        near(found_part, part, 0.0, f"two states of no keys, merged: {name}")


def _no_parts(declaration: Declaration) -> str | None:
    parts = declaration.adapter in ("merge", "streaming")
    return None if parts else "it has no partial states (adapters merge and streaming)"


def _replay(subject: Subject, case: Case, knob: list[Any]) -> None:
    replay(subject, case, knob)


ANY_ORDER = "any order"
"""The law whose knob, the steps, a state machine draws; see `run_machine`."""
STATE_LAWS = (
    Law(name="running maximum", statement="the running maximum never falls", missing=_no_maximum, draw=no_knob(),
        check=_maximum),
    Law(name="positive sum", statement="sums are positive, and LSE lies between max and max + log n", missing=_no_sum,
        draw=no_knob(), check=_positive_sum),
    Law(name="merge: associative", statement="(a b) c and a (b c) are the same state", missing=_no_merge,
        draw=with_knob(_draw_three), check=_state_law(lambda f, s: merged(f, merged(f, s[0], s[1]), s[2]),
                         lambda f, s: merged(f, s[0], merged(f, s[1], s[2])), "(a b) c against a (b c)")),
    Law(name="merge: commutative", statement="a b and b a are the same state", missing=_no_merge,
        draw=with_knob(_draw_three), check=_state_law(lambda f, s: merged(f, merged(f, s[0], s[1]), s[2]),
                         lambda f, s: merged(f, s[2], merged(f, s[1], s[0])), "a b against b a")),
    Law(name="merge: identity", statement="the state of no keys, (-inf, 0, 0), changes nothing", missing=_no_merge,
        draw=no_knob(), check=_identity),
    Law(name=ANY_ORDER, statement="parts that are fed and joined in any order are right whenever one asks",
        missing=_no_parts, draw=no_knob(), check=_replay),
)  # fmt: skip


class _Steps(RuleBasedStateMachine):
    """Parts of one case, and what may be done with them; `do` takes a step."""

    parts: Parts
    whole = False

    def do(self, step: list[Any]) -> None:
        """Take a step; `whole` says that the last one broke no law."""
        raise NotImplementedError

    @precondition(lambda self: len(self.parts.parts) < MOST_PARTS)
    @rule()
    def start(self) -> None:
        self.do(["start"])

    @precondition(lambda self: self.parts.parts)
    @rule(part=st.integers(0, MOST_PARTS - 1), first=st.integers(0, 99), count=st.integers(1, 40))
    def feed(self, part: int, first: int, count: int) -> None:
        keys = self.parts.case.keys
        picked = [(first + more) % keys for more in range(min(count, keys))]
        self.do(["feed", part % len(self.parts.parts), picked])

    @precondition(lambda self: self.parts.can_join())
    @rule(part=st.integers(0, MOST_PARTS - 1), other=st.integers(0, MOST_PARTS - 1))
    def join(self, part: int, other: int) -> None:
        count = len(self.parts.parts)
        left, right = part % count, other % count
        self.do(["join", left, right if right != left else (left + 1) % count])

    @precondition(lambda self: self.parts.parts)
    @rule(part=st.integers(0, MOST_PARTS - 1))
    def finish(self, part: int) -> None:
        self.do(["finish", part % len(self.parts.parts)])

    def teardown(self) -> None:
        while self.whole and self.parts.parts:
            self.do(["finish", 0])


def run_machine(
    subject: Subject,
    settings: hypothesis_settings,
    seed: int,
    ease: Ease,
    begin: Callable[[Case, list[Any]], None],
    attempt: Callable[[Callable[[], None]], None],
) -> None:
    """Let Hypothesis feed, join and finish parts as it likes.

    Args:
        ease: of what is drawn.
        begin: called with the case and the steps so far, before each step; attempt: takes it.

    Raises:
        Violation: a law does not hold after a step; the steps that `begin` saw last are the shortest found.
    """

    class Machine(_Steps):
        """Parts of a case that Hypothesis draws."""

        @initialize(case=cases(subject.declaration, Wanted(ease=ease)))
        def prepare(self, case: Case) -> None:
            self.parts, self.whole = Parts(subject, case), True
            for part, keys in enumerate((range(0, case.keys, 2), range(1, case.keys, 2))):
                self.do(["start"])
                if keys:
                    self.do(["feed", part, list(keys)])

        def do(self, step: list[Any]) -> None:
            begin(self.parts.case, [*self.parts.steps, step])
            self.whole = False
            attempt(lambda: self.parts.do(step))
            self.whole = True

    run_state_machine_as_test(seeded(seed)(Machine), settings=settings)
