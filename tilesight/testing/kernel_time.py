"""The fixture of `pytest --tilesight`: predicts a function, and fails where it is not as expected."""

import inspect
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ..compiling import why_not
from ..diffing.diff import USERS_CODE_S, question_of
from ..diffing.difference import Difference
from ..diffing.known_sides import predicted_once
from ..diffing.saved import saved_text
from ..diffing.side import Side
from ..diffing.sides import Question, compiled_side, predicted, unpredicted
from ..kernels.capture.file import Asked, RecordedFunction, UserCodeFailed, capture_calls
from ..predicting import predict_calls, with_recording
from ..simulator import units
from ..simulator.arguments import shown, truth
from ..simulator.display.render import times
from .answer import PredictedKernels, incomplete_text, of_difference, of_prediction, over_text, slower_text
from .baselines import Baselines, given_name, name_of
from .judgements import JUDGEMENTS, Judgement

NARROWEST, WIDEST = 60, 160
"""Characters of what is printed."""
TAKEN = "must be FILE.py:FUNCTION, MODULE:FUNCTION, or a function that launches kernels, defined at the top of a file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a test expects.

    Args:
        limit_s: time that is allowed; None: any [s]. baseline: name of it; empty: there is none.
        share: by which it may be slower than that; partial: whether launches may be lacking.
    """

    limit_s: float | None
    baseline: str
    share: float
    partial: bool

    @property
    def limit_text(self) -> str:
        """The limit, e.g. `at most 120 us`; empty where there is none."""
        return "" if self.limit_s is None else f"at most {units.duration(self.limit_s)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A function. Args: name: for people and for files; target: as `kernels.capture.file.capture_calls` takes it."""

    name: str
    target: str


class KernelTime:
    """Predicts kernels for one test, and fails it. Args: item: the test; config: of pytest."""

    def __init__(self, item: pytest.Item, config: pytest.Config) -> None:
        self._item, self._config = item, config
        self._update = bool(config.getoption("tilesight_update"))
        self._width = min(max(config.get_terminal_writer().fullwidth, NARROWEST), WIDEST)
        folder = config.rootpath / config.getini("tilesight_baselines")
        self._baselines = Baselines(root=config.rootpath, folder=folder, how=self._command())
        self._names: set[str] = set()

    def __call__(
        self,
        function: str | Callable[..., object],
        *,
        device: str = "h200",
        at_most: str | float | None = None,
        baseline: str | None = None,
        slower_than: float = 0.05,
        arguments: Mapping[str, Any] | None = None,
        l2: str = "pipeline",
        timing: str = "single",
        partial: bool = False,
        time_limit_s: float | None = None,
    ) -> PredictedKernels:
        """Predict all launches of a function, and fail the test where they take too long.

        Args:
            function: `FILE.py:FUNCTION`, from pytest's rootdir, `MODULE:FUNCTION`, or a function that is defined at the
                top of a file; it runs in a process of its own.
            device: a name or a path to a TOML file; l2, timing: as of `tilesight.predict`.
            at_most: time that is allowed, with its unit, such as `120 us`, or in seconds.
            baseline: name of a prediction to compare with; where this and at_most are left out, the test's own name.
            slower_than: share by which it may be slower than the baseline: it fails where it is slower by more
                wherever in the band the truth lies.
            arguments: of the function, plain values by name.
            partial: whether an answer is taken that lacks launches.
            time_limit_s: that a function, the compiler and the prediction may take for each launch; None: as usual [s].
        """
        __tracebackhide__ = True
        caller = sys._getframe(1)
        try:
            expects = expected(at_most, baseline, name_of(self._item, self._config.rootpath), slower_than, partial)
            question = question_of(device, l2=l2, timing=timing, time_limit_s=time_limit_s)
            answer, failures = self._answered(function, arguments or {}, question, expects)
        except (ValueError, UserCodeFailed) as error:
            failures = [str(error)]
        if failures:
            where = f"{os.path.relpath(caller.f_code.co_filename)}:{caller.f_lineno}"
            pytest.fail("\n\n".join([*failures, where]), pytrace=False)
        return answer

    def _answered(
        self, function: object, arguments: Mapping[str, Any], question: Question, expects: Expected
    ) -> tuple[PredictedKernels, list[str]]:
        """What is predicted, and what is wrong with it."""
        subject = subject_of(function, self._config.rootpath)
        if reason := why_not():
            raise ValueError(reason)
        self._need(expects.baseline)
        launches = recorded(subject, arguments, question)
        given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        name = f"{subject.name}({given})" if given else subject.name
        text = note = ""
        if expects.baseline and self._update:
            answer, text = saved(name, launches, question)
        elif expects.baseline:
            old, note = self._baselines.read(expects.baseline, question)
            answer = beside(old, name, launches, question)
        else:
            answer = alone(name, launches, question)
        if not answer.complete and not (expects.partial and answer.time_s):
            self._keep(answer, expects.limit_text or expects.baseline, "incomplete")
            return answer, [incomplete_text(answer, self._width)]
        return answer, [*self._limited(answer, expects), *self._compared(answer, expects, text, note)]

    def _need(self, baseline: str) -> None:
        """See that a baseline is there, and that the test has not used it for something else."""
        if baseline in self._names:
            raise ValueError(f"baseline {baseline!r}: is of another call in this test; name each: baseline=...")
        if baseline:
            self._names.add(baseline)
            if not self._update:
                self._baselines.need(baseline)

    def _limited(self, answer: PredictedKernels, expects: Expected) -> Iterator[str]:
        """The failure where it takes too long."""
        if expects.limit_s is None:
            return
        is_over = answer.time_s > expects.limit_s
        self._keep(answer, expects.limit_text, "over the limit" if is_over else "within")
        if is_over:
            yield over_text(answer, expects.limit_s, self._width)

    def _compared(self, answer: PredictedKernels, expects: Expected, text: str, note: str) -> Iterator[str]:
        """The failure where it is slower than its baseline. Args: text: to be written in its place; note: on it."""
        if text:
            verdict = "written" if self._baselines.write(expects.baseline, text) else "unchanged"
            self._keep(answer, expects.baseline, verdict, digest=sha256(text.encode()).hexdigest())
        if difference := answer.difference:
            change = difference.change
            verdict = "same code" if difference.same_code else difference.verdict
            note = "; ".join(filter(None, (note, difference.torch_note if difference.torch_differs else "")))
            self._keep(answer, expects.baseline, f"{verdict}, {times(change.ratio)}" if change else verdict, note=note)
            if difference.is_slower_by(expects.share):
                yield slower_text(difference, expects.share, self._command(), self._width)

    def _keep(self, answer: PredictedKernels, against: str, verdict: str, digest: str = "", note: str = "") -> None:
        """Have a prediction listed when all tests have run."""
        judgement = Judgement(
            test=self._item.nodeid,
            function=answer.name,
            device=answer.device,
            time=answer.time_text,
            bound=answer.bound_text,
            against=against,
            verdict=verdict,
            digest=digest,
            note=note,
        )
        self._item.stash.setdefault(JUDGEMENTS, []).append(asdict(judgement))

    def _command(self) -> str:
        """What writes the baselines of this test."""
        file = os.path.relpath(self._item.path, self._config.invocation_params.dir)
        node = "::".join([file, *self._item.nodeid.split("::")[1:]])
        return f"pytest --tilesight --tilesight-update {shlex.quote(node)}"


def recorded(subject: Subject, arguments: Mapping[str, Any], question: Question) -> RecordedFunction:
    """What a function launches; its process finds modules where this one does.

    Raises:
        UserError: there is no such function, or it launches nothing; UserCodeFailed: it failed (one line).
    """
    asked = Asked(
        device=question.name,
        shapes=(arguments,),
        timeout_s=question.compile_limit_s or USERS_CODE_S,
        folders=tuple(place for place in sys.path if place),
    )
    return capture_calls(subject.target, asked)[0]


def alone(name: str, recorded: RecordedFunction, question: Question) -> PredictedKernels:
    """Launches predicted, or found in the store. Args: name: of the function."""
    prediction = with_recording(predict_calls(recorded.calls, question), recorded)
    return of_prediction(name, prediction.measured_as(question.timing))


def beside(old: Side, name: str, recorded: RecordedFunction, question: Question) -> PredictedKernels:
    """Launches beside a baseline; nothing is predicted where all code is the same. Args: name: of the function."""
    compiled = compiled_side(name, recorded, question)
    same = bool(old.code) and old.code == compiled.code
    new = unpredicted(compiled, question) if same else predicted_once(compiled, question)
    return of_difference(Difference(old, new, tuple(dict.fromkeys([*old.notes, *new.notes]))))


def saved(name: str, recorded: RecordedFunction, question: Question) -> tuple[PredictedKernels, str]:
    """Launches predicted, and the file of `predict --save`. Args: name: of the function."""
    side, prediction = predicted(compiled_side(name, recorded, question), question, shown=True)
    return of_prediction(name, prediction.measured_as(question.timing)), saved_text(side, recorded)


def subject_of(function: object, root: Path) -> Subject:
    """The function that is meant. Args: root: folder that paths begin at. Raises: ValueError: there is none."""
    if isinstance(function, str):
        place, _, name = function.rpartition(":")
        return _in_file(root / place, name, root) if place.endswith(".py") else Subject(name=function, target=function)
    top = str(getattr(function, "__name__", ""))
    module = sys.modules.get(str(getattr(function, "__module__", "")))
    file: str | None = getattr(module, "__file__", None)
    if file and inspect.isfunction(function) and getattr(module, top, None) is function:
        return _in_file(Path(file), top, root)
    raise ValueError(f"function = {shown(function)}: {TAKEN}")


def _in_file(path: Path, function: str, root: Path) -> Subject:
    place = path.relative_to(root) if path.is_relative_to(root) else path
    if not path.is_file():
        raise ValueError(f"{place}: no such file{'' if place.is_absolute() else f' in {root}'}")
    return Subject(name=f"{place.as_posix()}:{function}", target=f"{path}:{function}")


def expected(at_most: object, baseline: object, usual: str, slower_than: object, partial: object) -> Expected:
    """What a test expects.

    Args:
        usual: name of a baseline where there is neither a limit nor another name; others as of `KernelTime.__call__`.

    Raises:
        ValueError: something is not allowed (one line).
    """
    name = usual if at_most is None else ""
    return Expected(
        limit_s=None if at_most is None else _seconds(at_most),
        baseline=name if baseline is None else given_name(baseline),
        share=_share(slower_than),
        partial=truth("partial", partial),
    )


def _seconds(at_most: object) -> float:
    said = f"at_most = {shown(at_most)}: must be a time above 0, such as '120 us', '1.5 ms' or 1.2e-4 (in s)"
    if isinstance(at_most, str):
        try:
            seconds = units.parse_duration(at_most)
        except ValueError:
            raise ValueError(said) from None
    else:
        seconds = _number(at_most, said)
    if not 0.0 < seconds < float("inf"):
        raise ValueError(said)
    return seconds


def _share(slower_than: object) -> float:
    said = f"slower_than = {shown(slower_than)}: must be a share from 0 to 1, such as 0.05 for 5 %"
    share = _number(slower_than, said)
    if not 0.0 <= share <= 1.0:
        raise ValueError(said)
    return share


def _number(value: object, said: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(said)
    return float(value)
