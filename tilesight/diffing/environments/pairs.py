"""The environments in which two sides are recorded and compiled, and how they differ."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...compiling import why_not
from ...simulator.device.device import Device
from ...simulator.refusal import UserError
from .found import Installation, here, installation_of
from .made import python_with_triton, versions_of

Installations = tuple[Installation | None, Installation | None]
"""Of the old side and of the new one; None: this one, and no other was asked for."""
OPTIONS = ("--old-python", "--new-python")


def installations_of(texts: Sequence[str], pythons: Sequence[str], devices: Sequence[Device]) -> Installations:
    """Where two sides are recorded and compiled.

    Args:
        texts: what the sides are; pythons: asked for, empty: this one; devices: to compile for.

    Raises:
        UserError: a Python cannot be used, or its side is a saved file.
    """
    if not any(pythons):
        return None, None
    for text, python, option in zip(texts, pythons, OPTIONS, strict=True):
        if python and text.endswith(".json"):
            raise UserError(f"{option} {python!r}: {text!r} was compiled when it was saved; name a function instead")
    old, new = (
        installation_of(python, option, device.capability) if python else here(device.capability)
        for python, option, device in zip(pythons, OPTIONS, devices, strict=True)
    )
    return old, new


def installations_with(
    tritons: str, texts: Sequence[str], devices: Sequence[Device], say: Callable[[str], None]
) -> tuple[Installation, Installation]:
    """The same for two versions of Triton, which are installed where they are not yet.

    Args:
        tritons: e.g. `3.6.0,3.9.0`; say: announces what is installed.

    Raises:
        UserError: they are no versions, or cannot be installed, or a side is a saved file.
    """
    versions = versions_of(tritons)
    if reason := why_not():
        raise UserError(reason)
    if saved := [text for text in texts if text.endswith(".json")]:
        raise UserError(f"--triton: {saved[0]!r} was compiled when it was saved; name a function")
    old, new = (
        _with_triton(version, device.capability, say) for version, device in zip(versions, devices, strict=True)
    )
    return old, new


def _with_triton(version: str, capability: int, say: Callable[[str], None]) -> Installation:
    present = here(capability)
    if version == present.environment.triton:
        return present
    python = python_with_triton(version, present.environment.torch, say)
    return replace(installation_of(python, f"triton {version}", capability), notes=())


def notes_on(installations: Installations) -> tuple[str, ...]:
    """Remarks on two environments: how they were come by, and that their assemblers differ."""
    old, new = installations
    if old is None or new is None:
        return ()
    before, after = old.environment.ptxas, new.environment.ptxas
    differs = (f"ptxas differs: {before or 'of unknown version'} before, {after or 'of unknown version'} after",)
    return (*old.notes, *new.notes, *(differs if before != after else ()))
