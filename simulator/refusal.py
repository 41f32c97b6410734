"""Why something cannot run, as a value: made where that is found out, and handed on to whoever reports it.

Functions that may refuse return what they make or a `Refusal`; only doors for users raise it (`granted`).
"""

from dataclasses import dataclass
from typing import Literal, TypeVar

Made = TypeVar("Made")
Kind = Literal["not supported", "does not fit", "takes too long", "impossible"]


class Refused(ValueError):
    """A kernel that cannot be followed or compiled; the text is one line that names kernel and source line."""


class DoesNotFit(ValueError):
    """A CTA needs more of something than one SM has, or the compiler refuses its kernel."""


class UserError(ValueError):
    """Something that a user named cannot be used: a file, function, revision or Python; the text is one line."""


class BrokenLaw(Exception):
    """A prediction that no device can keep: a fault of the model, and no answer; the text is one line to report."""


class CannotFollow(ValueError):
    """Machine code that cannot be read, or threads that cannot be followed through it; the text is one line.

    Args:
        address: of the instruction where that was found, in the code [B]; -1: of none.
    """

    def __init__(self, text: str, address: int = -1) -> None:
        super().__init__(text)
        self.address = address


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something cannot run.

    Args:
        kind: `not supported` where a schedule or a device cannot do the work at all, whatever it takes of an SM;
            `does not fit` where a CTA takes more than an SM has, or the compiler refuses the kernel;
            `takes too long` where an answer would take longer than it may;
            `impossible` where what was predicted breaks a law of physics.
        reason: one line.
    """

    kind: Kind
    reason: str

    @property
    def error(self) -> ValueError:
        """The refusal as an exception."""
        return DoesNotFit(self.reason) if self.kind == "does not fit" else ValueError(self.reason)


def granted(made: Made | Refusal) -> Made:
    """What was made. Raises: ValueError, DoesNotFit: it was refused; the text is the reason."""
    if isinstance(made, Refusal):
        raise made.error
    return made
