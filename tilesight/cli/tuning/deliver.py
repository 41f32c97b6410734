"""The answer of `tilesight tune` about a layer of an engine, and its file."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..output import Asked, Failed, answer, text_color, text_width, write_file

if TYPE_CHECKING:
    from ...tuning.engines.tune import LayerQuestion
    from ...tuning.tuning import Tuning


def layer_file(question: "LayerQuestion", device: str) -> str:
    """The tuning file below its folder, by the name that the engine looks for. Args: device: name."""
    from triton import __version__

    from ...tuning.engines.files import engine_device

    layer = question.layer
    return question.engine.file(layer, engine_device(device, layer.device_name), __version__)


def deliver_layer(question: "LayerQuestion", tuning: "Tuning", folder: Path, file: str, asked: Asked) -> None:
    """Print what was answered about a layer of an engine, and write its file.

    Args:
        question: what was asked.
        tuning: the answer.
        folder: that the engine is told.
        file: below it.
        asked: options that say what else is printed and written.
    """
    from triton import __version__

    from ...tuning.engines.files import file_text
    from ...tuning.engines.summary import entries, summary

    engine, path = question.engine, folder / file
    if not (best := entries(tuning)):
        raise Failed(f"{tuning.target}: no configuration is predicted: {_first_refusal(tuning)}")
    answer(
        asked,
        lambda: summary(tuning, [str(path)], text_width(), text_color()),
        tuning.to_dict,
        csv=tuning.flat_rows,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    hint = f"{engine.package} reads it with {engine.variable}={folder}" if engine.variable else ""
    write_file(path, file_text(engine, best, __version__), hint)
    if not tuning.complete:
        raise typer.Exit(1)


def _first_refusal(tuning: "Tuning") -> str:
    return next((str(item.row.refused) for launch in tuning.launches for item in launch.configured), "")
