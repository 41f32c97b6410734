"""The options that commands share, but for the problem (`shapes`) and its configuration (`configs`).

Values are read here, not by typer, so that every message names option, value and what is allowed.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import typer

from ..simulator.device.device import Device, catalogue, device_name, load_device
from ..simulator.device.host import hosts, load_host
from ..simulator.device.what_if import on_host, override
from ..simulator.schedules.registry import DEFAULT_SCHEDULE, find_schedule
from .groups import Group, option, typed_as, word
from .output import BadInput, Failed, bad_input, one_line, say

Answer = TypeVar("Answer")


def schedule_names() -> list[str]:
    """What `--schedule` can name."""
    from ..simulator.schedules.registry import all_schedules

    return ["all", *all_schedules()]


DEFAULT_DEVICE = "h200"
DEVICE_DOC = "Name (see `tilesight devices`), or a path that ends in .toml."
SET_DOC = "What if: change a number of the device, e.g. l2_bytes=30MiB; repeatable."
DEVICE, SETTING = "NAME|FILE", "KEY=VALUE"


class DevicesOptions(Group):
    """What to run it on, one device or several."""

    device: list[str] | None = option(
        None,
        f"{DEVICE_DOC} Several, by commas or repeated, to compare.  [default: {DEFAULT_DEVICE}]",
        DEVICE,
        words=catalogue,
    )
    set_: list[str] | None = option(None, SET_DOC, SETTING)

    def build(self) -> dict[str, Device]:
        """The devices by name. Raises: BadInput: as `devices_given`."""
        return devices_given(self.device, self.set_)

    def notes(self, name: str, device: Device) -> tuple[str, ...]:
        """As `device_notes`."""
        return device_notes(name, device, self.set_)


class DeviceOptions(Group):
    """What to run it on."""

    device: str = option(DEFAULT_DEVICE, DEVICE_DOC, DEVICE, words=catalogue)
    set_: list[str] | None = option(None, SET_DOC, SETTING)

    def notes(self, name: str, device: Device) -> tuple[str, ...]:
        """As `device_notes`."""
        return device_notes(name, device, self.set_)


class HostOptions(Group):
    """What joins GPUs."""

    host: str | None = option(
        None,
        "Host that joins the GPUs; more than it has go over its NICs.  [default: eight, by the device's own links]",
        "NAME",
        words=hosts,
    )

    def devices(self, machine: DevicesOptions, gpus: int) -> dict[str, Device]:
        """The devices, on the host that is named; its own GPU where no device is.

        Args:
            gpus: how many there are.

        Raises:
            BadInput: as `devices_given`, it holds others, joins fewer, or there is no such host.
        """
        if self.host is None:
            return machine.build()
        if gpus < 2:
            raise BadInput(f"--host {self.host}: changes nothing for one GPU; leave it out, or say --gpus 16")
        with bad_input(before="--"):
            host = load_host(self.host)
        devices = devices_given(machine.device or host.devices[:1], machine.set_)
        for name in devices:
            if name not in host.devices:
                raise BadInput(f"--host {host.name}: holds {', '.join(host.devices)}, not {name}; leave out --device")
        if gpus > host.most:
            raise BadInput(f"--host {host.name}: joins {host.most} GPUs, not {gpus}; its NICs are not known")
        return {name: on_host(device, host) for name, device in devices.items()}


class RunOptions(Group):
    """How to run it, and what of the device to change."""

    set_: list[str] | None = option(None, SET_DOC, SETTING)
    l2: str = word("cold", "L2 cache before the first launch.", "cold", "warm")
    overhead: str = word("stream", "How kernels are launched.", "stream", "graph")


class MachinesOptions(DevicesOptions, RunOptions):
    """What to run it on, one device or several, and how."""


class MachineOptions(DeviceOptions, RunOptions):
    """What to run it on, and how."""

    def build(self) -> tuple[str, Device]:
        """The device, with what `--set` replaces. Raises: BadInput: as `device_given`, or several are named."""
        if len(_devices_in(self.device)) > 1:
            raise BadInput(f"--device {self.device!r}: must be one device here; try explore or compare")
        return device_given(self.device, self.set_)


class ScheduleOptions(Group):
    """One schedule."""

    schedule: str | None = option(
        None,
        f"Algorithm and loop order.  [default: {DEFAULT_SCHEDULE}; of the backward pass its own]",
        "NAME",
        words=schedule_names,
    )

    @property
    def schedules(self) -> list[str] | None:
        """A list of it; None where the user names none. Raises: BadInput: there is none of that name."""
        with bad_input("schedule"):
            return [find_schedule(self.schedule).name] if self.schedule else None


class SchedulesOptions(Group):
    """Schedules to compare."""

    schedule: list[str] | None = option(
        None, "Algorithm and loop order; `all`: every one of the pass; repeatable.", "NAME", words=schedule_names
    )


def devices_given(names: Sequence[str] | None, settings: Sequence[str] | None) -> dict[str, Device]:
    """Devices by their full names, with what `--set` replaces; the default one where none is named.

    Raises:
        BadInput: as `device_given`, or one is named twice.
    """
    devices: dict[str, Device] = {}
    for given in [part for text in names or [DEFAULT_DEVICE] for part in _devices_in(text)]:
        name, device = device_given(given, settings)
        if name in devices:
            raise BadInput(f"--device {given}: is {name}, which is given already; give it once")
        devices[name] = device
    return devices


def device_notes(name: str, device: Device, settings: Sequence[str] | None) -> tuple[str, ...]:
    """Remarks on a device: the numbers that `--set` replaced, and whether any prediction for it was ever measured."""
    changed = tuple(f"device changed by --set {setting}" for setting in settings or [])
    if device.held_against:
        return changed
    but = f" but with public tables ({device.public_tables})" if device.public_tables else ""
    weak = sum(origin.kind in ("assumed", "fitted") for origin in device.provenance.values())
    return (
        *changed,
        f"no prediction for {name} was held against a measurement by this project{but};"
        f" {weak} of the {len(device.provenance)} numbers of its file are assumed, or scaled from other GPUs",
    )


def _devices_in(text: str) -> list[str]:
    """The names in a list with commas; a file may have commas in its own name."""
    return [text] if Path(text).is_file() else [part.strip() for part in text.split(",")]


def device_given(name: str, settings: Sequence[str] | None) -> tuple[str, Device]:
    """A device's full name, and the device with what `--set` replaces.

    Raises:
        BadInput: unknown name, key, or a value out of range.
    """
    try:
        return device_name(name), override(load_device(name), list(settings or []))
    except ValueError as error:
        text = str(error)
        raise BadInput(text if text.startswith("--set") else f"--device: {text}") from None


def one_device(devices: Sequence[str] | dict[str, Device], **files: object) -> None:
    """See that no file of one device is asked for where there are several. Raises: BadInput: one is."""
    for name, file in files.items():
        if file is not None and len(devices) > 1:
            given = ", ".join(devices)
            raise BadInput(f"{typed_as(name)} {str(file)!r}: shows one device, not {given}; run once for each --device")


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
