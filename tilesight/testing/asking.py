"""A function in, what is predicted of its launches out: alone, beside a baseline, or as a file that is one."""

import sys
from collections.abc import Mapping
from typing import Any

from ..diffing.diff import USERS_CODE_S
from ..diffing.difference import Difference
from ..diffing.known_sides import predicted_once
from ..diffing.saved import saved_text
from ..diffing.side import Side
from ..diffing.sides import Question, compiled_side, predicted, unpredicted
from ..kernels.capture.file import Asked, RecordedFunction, capture_calls
from ..predicting import predict_calls, with_recording
from .answer import PredictedKernels, of_difference, of_prediction
from .subject import Subject


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
