"""An answer for each of several devices: one that fails leaves the others theirs."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import typer

from ..simulator.device.device import Device
from .output import BadInput, Failed, one_line, say

Answer = TypeVar("Answer")


def each_device(
    devices: Mapping[str, Device], ask: Callable[[str, Device], Answer]
) -> tuple[dict[str, Answer | str], list[Exception]]:
    """Ask for each device.

    Returns:
        Device -> its answer, or why there is none in one line; and these errors.

    Raises:
        BadInput, Failed: as `ask` does, where there is but one device.
    """
    outcomes: dict[str, Answer | str] = {}
    errors: list[Exception] = []
    for name, device in devices.items():
        try:
            outcomes[name] = ask(name, device)
        except (BadInput, Failed) as error:
            if len(devices) == 1:
                raise
            errors.append(error)
            outcomes[name] = one_line(str(error))
            say(f"{name}: {error}")
    return outcomes, errors


def leave(errors: list[Exception], answered: list[bool], complete: bool, partial: bool) -> None:
    """End with the exit code of such answers.

    Args:
        errors: of devices without an answer.
        answered: of each answer, whether it predicts anything.
        complete: whether all answers predict all.
        partial: whether that need not be so.

    Raises:
        Exception: the first error, where there is no answer.
        typer.Exit: no answer predicts anything, or one is incomplete.
    """
    if errors and not answered:
        raise errors[0]
    if not any(answered) or not (partial or (complete and not errors)):
        raise typer.Exit(1)
