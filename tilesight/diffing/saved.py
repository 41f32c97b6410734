"""A prediction in a file that a later one is compared with: its side, the launches themselves, and what answered it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .. import __version__
from ..simulator.store.keys import model
from .side import Side
from .sides import Question, compiled_side, predicted

if TYPE_CHECKING:
    from ..kernels.capture.file import RecordedFunction

SCHEMA = "tilesight.saved/1"


class Unusable(ValueError):
    """A file that holds no prediction to compare with; the text is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a file holds.

    Args:
        program, model: version of this program, and digest of the code that predicts; side: the answer;
        settings: what-ifs of the device, `key=value`;
        calls, values: launches as `kernels.compile.call.to_plain` has them, from which they are predicted again.
    """

    program: str
    model: str
    side: Side
    settings: tuple[str, ...]
    calls: Sequence[Mapping[str, Any]] = field(repr=False)
    values: Mapping[str, str] = field(repr=False)
    schema: str = SCHEMA


def saved_text(side: Side, recorded: "RecordedFunction", settings: Sequence[str]) -> str:
    """The file of `predict --save`. Args: recorded: launches of the side."""
    from ..kernels.compile.call import ValueTexts, to_plain

    values: ValueTexts = {}
    calls = [to_plain(call, values) for call in recorded.calls]
    kept = Saved(program=__version__, model=model(), side=side, settings=tuple(settings), calls=calls, values=values)
    return msgspec.json.format(msgspec.json.encode(kept), indent=1).decode() + "\n"


def side_of(path: Path, question: Question, settings: Sequence[str], repredict: bool) -> Side:
    """The side that a file holds.

    Args:
        question, settings: that it has to answer; repredict: whether to predict its launches by this program.

    Raises:
        Unusable: it is no such file, was made by another model, or answers another question (one line).
    """
    saved = _read(path)
    differing = [
        f"{what} {was} (asked for is {now})"
        for what, was, now in (
            ("device", saved.side.device, question.name),
            ("--l2", saved.side.l2, question.l2),
            ("--as", saved.side.timing, question.timing),
            ("--set", " ".join(saved.settings) or "nothing", " ".join(settings) or "nothing"),
        )
        if was != now
    ]
    if differing:
        raise Unusable(f"{str(path)!r}: is of {differing[0]}: ask for the same, or save it anew")
    if repredict:
        return _repredicted(saved, path, question)
    if saved.model != model():
        raise Unusable(
            f"{str(path)!r}: was predicted by another version of the model ({saved.model} of tilesight "
            f"{saved.program}, this is {model()}), so a difference may be the model's: --repredict predicts its "
            "launches anew"
        )
    return replace(saved.side, name=str(path))


def _read(path: Path) -> Saved:
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=Saved)
    except OSError as error:
        raise Unusable(f"{str(path)!r}: cannot be read ({error.strerror})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unusable(f"{str(path)!r}: is no file of predict --save ({' '.join(str(error).split())})") from None
    if saved.schema != SCHEMA:
        raise Unusable(f"{str(path)!r}: is of schema {saved.schema}: must be {SCHEMA}")
    return saved


def _repredicted(saved: Saved, path: Path, question: Question) -> Side:
    from ..kernels.capture.file import RecordedFunction
    from ..kernels.compile.call import from_plain, values_of

    values = values_of(saved.values)
    recorded = RecordedFunction(
        calls=tuple(from_plain(call, values) for call in saved.calls),
        notes=saved.side.notes,
        operations=(),
        ended=saved.side.ended,
    )
    side, _ = predicted(compiled_side(str(path), recorded, question), question)
    return side
