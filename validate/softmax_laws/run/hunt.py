"""All laws, and the search for a counter-example to one of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import Flaky, Unsatisfiable

from ..call.calls import Subject, Violation
from ..declare.case import Case
from ..draw.inputs import Ease
from ..laws.changes import CHANGE_LAWS
from ..laws.gradients import GRADIENT_LAWS
from ..laws.keys import KEY_LAWS
from ..laws.law import Law, hold
from ..laws.results import RESULT_LAWS
from ..laws.states import ANY_ORDER, STATE_LAWS, run_machine
from .scope import waiver

EXAMPLES = 200
LAWS: tuple[Law, ...] = (*RESULT_LAWS, *CHANGE_LAWS, *KEY_LAWS, *GRADIENT_LAWS, *STATE_LAWS)

Watch = Callable[[Case, Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a law.

    Args:
        law: name; outcome: `passed`, `failed` or `not applicable`; examples: inputs that were tried.
        reason: what is wrong, or why the law does not apply.
        case, knob: shortest counter-example, where there is one.
        unless: declaration by which an implementation does not promise what failed; empty where there is none.
    """

    law: str
    outcome: str
    examples: int = 0
    reason: str = ""
    case: Case | None = None
    knob: Any = None
    unless: str = ""


def find_law(name: str) -> Law:
    """A law by its name. Raises: ValueError: there is none of that name."""
    for law in LAWS:
        if law.name == name:
            return law
    raise ValueError(f"law = {name!r}: must be one of {', '.join(law.name for law in LAWS)}")


def hunt(
    law: Law,
    subject: Subject,
    *,
    examples: int = EXAMPLES,
    seed: int = 0,
    shrink: bool = True,
    watch: Watch | None = None,
) -> Result:
    """Look for a counter-example to a law.

    Args:
        examples: inputs to try; seed: of what is drawn.
        shrink: whether to go on to the shortest, among inputs with few keys or plain values where such fail too.
        watch: called with every input before it is tried.
    """
    reason = law.missing(subject.declaration)
    if reason is not None:
        return Result(law=law.name, outcome="not applicable", reason=reason)
    first = _search(law, subject, examples, seed, shrink, Ease.ALL, watch)
    if first.outcome == "failed" and shrink:
        for ease in (Ease.FEW, Ease.PLAIN):
            readable = _search(law, subject, examples, seed, shrink, ease, watch)
            if readable.outcome == "failed":
                return replace(readable, examples=first.examples)
    return first


def _search(
    law: Law, subject: Subject, examples: int, seed: int, shrink: bool, ease: Ease, watch: Watch | None
) -> Result:
    last: list[Any] = [None, None]
    count = failed_at = 0

    def begin(case: Case, knob: Any) -> None:
        nonlocal count
        count += law.name != ANY_ORDER or len(knob) == 1
        last[:] = case, knob
        if watch:
            watch(case, knob)

    def attempt(action: Callable[[], None]) -> None:
        nonlocal failed_at
        try:
            action()
        except Violation:
            failed_at = failed_at or count
            raise

    chosen = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        verbosity=Verbosity.quiet,
        print_blob=False,
        stateful_step_count=12,
    )
    try:
        if law.name == ANY_ORDER:
            run_machine(subject, chosen, seed, ease, begin, attempt)
        else:

            @seeded(seed)
            @chosen
            @given(law.draw(subject.declaration, ease))
            def holds(drawn: tuple[Case, Any]) -> None:
                begin(*drawn)
                attempt(lambda: hold(law, subject, *drawn))

            holds()
    except Unsatisfiable:
        return Result(law=law.name, outcome="not applicable", reason="no input of its kind fits the declaration")
    except (Violation, Flaky) as error:
        return Result(
            law=law.name,
            outcome="failed",
            examples=failed_at,
            reason=_reason(error),
            case=last[0],
            knob=last[1],
            unless=waiver(law, subject.declaration, last[0]),
        )
    return Result(law=law.name, outcome="passed", examples=count)


def _reason(error: Violation | Flaky) -> str:
    if isinstance(error, Violation):
        return str(error)
    first = next(
        (str(exception) for exception in getattr(error, "exceptions", ()) if isinstance(exception, Violation)),
        "another result each time",
    )
    return f"not every time: {first}"
