"""What a test is told of the kernels that a function launches, and the words in which it fails."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..diffing.difference import Difference
from ..diffing.report.text import difference_text
from ..simulator import units
from ..simulator.display.render import bound_text, times, wrapped
from ..simulator.display.words import percent
from ..simulator.prediction.kernel_row import KernelRow
from ..simulator.prediction.kernels import KernelsPrediction
from ..simulator.prediction.torch_operation import torch_note
from ..simulator.prediction.what_helps import Advice, dominating_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedKernels:
    """What `kernel_time` gives.

    Args:
        name: of the function; device: name.
        rows: launches in the order of their calls; time_s: of all that were predicted [s].
        notes: one line each; ended: what the code raised after its last launch; empty: it ran to its end.
        helps: what would make the longest launch faster, where somebody simulated it.
        difference: from the baseline; None: it is compared with none.
    """

    name: str
    device: str
    rows: tuple[KernelRow, ...]
    time_s: float
    notes: tuple[str, ...] = ()
    ended: str = ""
    helps: tuple[Advice, ...] = ()
    difference: Difference | None = None

    @property
    def time_text(self) -> str:
        """Time of all launches for people; `>= 132 us` where it is a lower bound, `-` where there is none."""
        if not self.time_s:
            return "-"
        return f"{'>= ' if any(row.lower_bound for row in self.rows) else ''}{units.duration(self.time_s)}"

    @property
    def longest(self) -> KernelRow:
        """The launch that takes longest; the first of equals."""
        return max(self.rows, key=lambda row: row.traffic.time_s)

    @property
    def bound_text(self) -> str:
        """What binds that launch, e.g. `hbm 90 %`; empty where none is predicted."""
        return bound_text(self.longest.prediction) if self.longest.prediction else ""

    @property
    def complete(self) -> bool:
        """Whether every launch was predicted, and the code ran to its end; of the baseline as well."""
        lacking = self.ended or any(row.prediction is None for row in self.rows)
        return not lacking and (self.difference is None or self.difference.complete)


def of_prediction(name: str, prediction: KernelsPrediction) -> PredictedKernels:
    """The answer of a prediction. Args: name: of the function."""
    beside = [torch_note(prediction.torch_operations)] if prediction.torch_operations else []
    notes = [*beside, *prediction.notes, *(note for row in prediction.rows for note in row.notes)]
    return PredictedKernels(
        name=name,
        device=prediction.device,
        rows=prediction.rows,
        time_s=prediction.total.time_s if prediction.is_predicted else 0.0,
        notes=tuple(dict.fromkeys(notes)),
        ended=prediction.ended,
        helps=prediction.helps,
    )


def of_difference(difference: Difference) -> PredictedKernels:
    """The answer beside a baseline, whose figures it has where all code is the same."""
    new = difference.new
    side = new if new.predicted else difference.old
    return PredictedKernels(
        name=new.name,
        device=new.device,
        rows=tuple(launch.row for launch in side.launches),
        time_s=side.time_s,
        notes=tuple(filter(None, (difference.torch_note, *difference.notes))),
        ended=new.ended,
        difference=difference,
    )


def incomplete_text(answer: PredictedKernels, width: int) -> str:
    """That something is not predicted, and why. Args: width: characters at most."""
    less = "; partial=True takes what is predicted" if answer.time_s else ""
    head = f"{answer.name} on {answer.device}: not all is predicted{less}"
    if answer.difference:
        return f"{_text([head], width)}\n\n{difference_text(answer.difference, width)}"
    ended = [f"Ended    the code ended in an error: {answer.ended}"] if answer.ended else []
    return _text([head, *(f"Refused  {row.refused}" for row in answer.rows if row.refused), *ended], width)


def over_text(answer: PredictedKernels, limit_s: float, width: int) -> str:
    """That it takes longer than a limit, and which launch does. Args: limit_s [s]; width: characters at most."""
    head = (
        f"{answer.name} on {answer.device}: {answer.time_text} predicted, "
        f"{times(answer.time_s / limit_s)} the limit of {units.duration(limit_s)}"
    )
    launch = answer.longest.prediction
    longest = dominating_lines(launch, answer.time_s, answer.helps) if launch else []
    return _text([head, *longest, *(f"Note     {note}" for note in answer.notes)], width)


def slower_text(difference: Difference, share: float, how: str, width: int) -> str:
    """That it takes longer than a baseline, and why.

    Args:
        share: that is allowed; how: the command that takes it as the baseline; width: characters at most.
    """
    new = difference.new
    head = f"{new.name} on {new.device}: slower than its baseline by more than {percent(share)}"
    return f"{_text([head], width)}\n\n{difference_text(difference, width)}\n\nIf it is meant to be: {how}"


def _text(lines: Sequence[str], width: int) -> str:
    return "\n".join(wrapped(lines, width))
