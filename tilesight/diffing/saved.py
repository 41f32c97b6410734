"""A prediction in a file that a later one is compared with: its side, the launches themselves, and what answered it.

The same launches make the same file, byte for byte and on every machine: it has no date, and files of sources by their
names alone.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .. import __version__
from ..simulator.refusal import UserError
from ..simulator.store.keys import model
from .side import Side
from .sides import Question, compiled_side, predicted

if TYPE_CHECKING:
    from ..kernels.capture.file import RecordedFunction

SCHEMA = "tilesight.saved/1"
FOLDERS = re.compile(r'(?<=loc\(")[^"]*/(?=[^"/]*":\d)')
"""What stands before a file's name where IR says which line it comes from."""


class OtherModel(UserError):
    """It holds one, of another version of the model. Args: path: of the file; saved: what it holds."""

    def __init__(self, path: Path, saved: "Saved") -> None:
        self.version = f"another version of the model ({saved.model} of tilesight {saved.program}, this is {model()})"
        super().__init__(
            f"{str(path)!r}: was predicted by {self.version}, so a difference may be the model's: --repredict predicts "
            "its launches anew"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a file holds.

    Args:
        program, model: version of this program, and digest of the code that predicts; side: the answer;
        calls, values: launches as `kernels.compile.call.to_plain` has them, from which they are predicted again.
    """

    program: str
    model: str
    side: Side
    calls: Sequence[Mapping[str, Any]] = field(repr=False)
    values: Mapping[str, str] = field(repr=False)
    schema: str = SCHEMA


def saved_text(side: Side, recorded: "RecordedFunction") -> str:
    """The file of `predict --save`. Args: recorded: launches of the side."""
    from ..kernels.compile.call import ValueTexts, to_plain

    values: ValueTexts = {}
    calls = [_without_folders(to_plain(call, values)) for call in recorded.calls]
    kept = Saved(program=__version__, model=model(), side=side, calls=calls, values=values)
    return msgspec.json.format(msgspec.json.encode(kept), indent=1).decode() + "\n"


def _without_folders(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """A launch in plain values, with its source files by name."""
    if "job" not in call:
        return call
    job = {**call["job"]}
    if "ttir" in job:
        job["ttir"] = FOLDERS.sub("", job["ttir"])
    return {**call, "file": Path(call["file"]).name, "job": job}


def side_of(path: Path, question: Question, repredict: bool) -> Side:
    """The side that a file holds.

    Args:
        question: that it has to answer; repredict: whether to predict its launches by this program.

    Raises:
        UserError: it is no such file, or answers another question; OtherModel: was made by another (one line).
    """
    saved = _read(path)
    differing = [
        f"{what} {was} (asked for is {now})"
        for what, was, now in (
            ("device", saved.side.device, question.name),
            ("--l2", saved.side.l2, question.l2),
            ("--as", saved.side.timing, question.timing),
            ("--set", " ".join(saved.side.settings) or "nothing", " ".join(question.settings) or "nothing"),
        )
        if was != now
    ]
    if differing:
        raise UserError(f"{str(path)!r}: is of {differing[0]}: ask for the same, or save it anew")
    if repredict:
        return _repredicted(saved, path, question)
    if saved.model != model():
        raise OtherModel(path, saved)
    return replace(saved.side, name=str(path))


def _read(path: Path) -> Saved:
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=Saved)
    except OSError as error:
        raise UserError(f"{str(path)!r}: cannot be read ({error.strerror})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UserError(f"{str(path)!r}: is no file of predict --save ({' '.join(str(error).split())})") from None
    if saved.schema != SCHEMA:
        raise UserError(f"{str(path)!r}: is of schema {saved.schema}: must be {SCHEMA}")
    return saved


def _repredicted(saved: Saved, path: Path, question: Question) -> Side:
    from ..kernels.capture.file import RecordedFunction
    from ..kernels.compile.call import from_plain, values_of

    values = values_of(saved.values)
    recorded = RecordedFunction(
        calls=tuple(from_plain(call, values) for call in saved.calls),
        notes=saved.side.notes,
        operations=saved.side.torch_operations,
        ended=saved.side.ended,
    )
    side, _ = predicted(compiled_side(str(path), recorded, question), question)
    # What stands in a file of that name today may be another text: the saved lines have the one that was compiled.
    texts = {(line.file, line.number): line.text for launch in saved.side.launches for line in launch.lines}
    launches = (
        replace(
            launch, lines=tuple(replace(line, text=texts.get((line.file, line.number), "")) for line in launch.lines)
        )
        for launch in side.launches
    )
    return replace(side, launches=tuple(launches))
