"""`tilesight devices`: the catalogue, or the numbers of one device, all of them with their sources where asked."""

from typing import Annotated

import typer

from ...simulator.device.device import catalogue, load_device
from ..options import device_given
from ..output import BadInput, show, text_color, text_width
from ..parse import flag, option


def _names(incomplete: str) -> list[str]:
    return [name for name in catalogue() if name.startswith(incomplete)]


def devices(
    name: Annotated[
        str | None,
        typer.Argument(
            help="One device: name, or a path that ends in .toml.", metavar="[NAME|FILE]", autocompletion=_names
        ),
    ] = None,
    set_: Annotated[
        list[str] | None, option("--set", "What if: replace a number of the device; repeatable.", "KEY=VALUE")
    ] = None,
    every: Annotated[bool, flag("--all", "Show every number of the device, with its source.")] = False,
    json: Annotated[bool, flag("--json", "Print JSON, with every number and its source.")] = False,
) -> None:
    """List the devices, or show the main numbers of one: unit, kind (datasheet, measured, fitted, assumed), meaning."""
    from ...simulator.display import render
    from ...simulator.report.devices import device_dict, device_text, devices_dict, devices_text

    if name is None:
        if set_:
            raise BadInput(f"--set {set_[0]!r}: name the device that it changes, e.g. tilesight devices h200 --set ...")
        if every:
            raise BadInput("--all: name a device, e.g. tilesight devices h200 --all")
        known = {known_name: load_device(known_name) for known_name in catalogue()}
        show(render.to_json(devices_dict(known)) if json else devices_text(known, text_width(), text_color()))
        return
    full_name, device = device_given(name, set_)
    text = device_text(full_name, device, text_width(), every)
    show(render.to_json(device_dict(full_name, device)) if json else text)
