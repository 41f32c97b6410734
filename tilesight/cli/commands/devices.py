"""`tilesight devices`: the catalogue, or the numbers of one device, all of them with their sources where asked."""

from ...simulator.device.device import catalogue, load_device
from ..groups import Group, argument, flag, option, spread
from ..options import SETTING, device_given
from ..output import BadInput, answer, text_color, text_width


class ShownOptions(Group):
    """A device, and what is shown of it."""

    name: str | None = argument("One device: name, or a path that ends in .toml.", "[NAME|FILE]", None, catalogue)
    set_: list[str] | None = option(None, "What if: replace a number of the device; repeatable.", SETTING)
    all_: bool = flag("Show every number of the device, with its source.")
    json: bool = flag("Print JSON, with every number and its source.")


@spread
def devices(*, asked: ShownOptions) -> None:
    """List the devices, or show the main numbers of one: unit, kind (datasheet, measured, fitted, assumed), meaning."""
    from ...simulator.report.devices import device_dict, device_text, devices_dict, devices_text

    if asked.name is None:
        if asked.set_:
            raise BadInput(
                f"--set {asked.set_[0]!r}: name the device that it changes, e.g. tilesight devices h200 --set ..."
            )
        if asked.all_:
            raise BadInput("--all: name a device, e.g. tilesight devices h200 --all")
        known = {name: load_device(name) for name in catalogue()}
        answer(asked, lambda: devices_text(known, text_width(), text_color()), lambda: devices_dict(known))
        return
    name, device = device_given(asked.name, asked.set_)
    answer(
        asked,
        lambda: device_text(name, device, text_width(), asked.all_),
        lambda: device_dict(name, device),
    )
