"""`tilesight tune` for the tuning files of inference engines: which layer, for which batches, and its answer."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ...simulator.names import unknown
from ..given import Given
from ..groups import Group, option
from ..output import Asked, BadInput, Failed, answer, bad_input, text_color, text_width, write_file
from ..parse import each_once, number, read_option

if TYPE_CHECKING:
    from ...kernels.configurations.space import Space
    from ...tuning.engines.engine import Configuration, Engine
    from ...tuning.engines.tune import LayerQuestion

FORMATS = ("vllm-moe", "sglang-moe", "vllm-w8a8")
NAMED = ("--layer", "--batch-sizes", "--skew", "--seed", "--rerank")
if TYPE_CHECKING:
    from ...tuning.engines.tune import LayerQuestion
    from ...tuning.tuning import Tuning


class LayerOptions(Group):
    """The layer of a model that a tuning file is for."""

    layer: str | None = option(
        None,
        f"Of {', '.join(FORMATS)}: as in the files' names, e.g. `E=8, N=7168, hidden=4096, topk=2`, or `N=, K=`; "
        "may have dtype=fp8_w8a8, block_shape=[128,128], device_name=.",
        "NAME=VALUE,...",
    )
    batch_sizes: str | None = option(
        None, "Tokens, by commas.  [default: the 18 of the engines' tuners, 1 to 4096]", "LIST"
    )
    skew: float = option(0.0, "Chance of the i-th expert ~ i^-skew; 0: all get as many tokens.", "NUMBER", number)
    seed: int = option(0, "Of --skew.")
    rerank: Path | None = option(None, "Rank the entries of this tuning file alone, at its batch sizes.", "FILE.json")

    def refuse(self, given: Given, format: str | None) -> None:
        """Refuse them beside another format. Args: given: options as typed. Raises: BadInput: one is."""
        for name in NAMED:
            if name in given:
                said = f"--format {format}" if format else "no --format"
                raise BadInput(f"{name} {given[name][0]!r}: is for --format {', '.join(FORMATS)}, not for {said}")

    def question(
        self, format: str, kernel: str, device: str, space: "Space", settings: tuple[str, ...], limit_s: float
    ) -> "LayerQuestion":
        """What is asked of `tune_layer`.

        Args:
            kernel: `FILE.py:NAME`, empty: the installed engine's; device: name; space: values to try, not the engine's;
            limit_s: what a stage may take to be recorded [s].

        Raises:
            BadInput: an option is strange, or something is missing.
        """
        from ...tuning.engines.engine import BATCHES, ENGINES
        from ...tuning.engines.files import engine_device
        from ...tuning.engines.layer import layer_of, named_values
        from ...tuning.engines.routing import Routing
        from ...tuning.engines.tune import LayerQuestion

        engine = _searched(ENGINES[format], space)
        named, old = self._old(engine)
        with bad_input(before="--layer "):
            typed = named_values(self.layer or "")
            for name in typed.keys() & named.keys() - {"device_name"}:
                if typed[name] != named[name]:
                    raise ValueError(f"{name}={typed[name]}: the file of --rerank is of {name}={named[name]}")
            read_layer = layer_of({**named, **typed}, engine.needs, engine.experts)
            engine_device(device, read_layer.device_name)
        if not 0 <= self.skew <= 10:
            raise BadInput(f"--skew = {self.skew:g}: must be a number of 0 to 10")
        if self.seed < 0:
            raise BadInput(f"--seed = {self.seed}: must be 0 or more")
        return LayerQuestion(
            engine=engine,
            layer=read_layer,
            kernel=kernel,
            batches=self._batches(tuple(sorted(old)) or BATCHES),
            routing=Routing(skew=self.skew, seed=self.seed),
            old=old,
            settings=settings,
            time_limit_s=limit_s,
        )

    def _batches(self, usual: tuple[int, ...]) -> tuple[int, ...]:
        if self.batch_sizes is None:
            return usual
        parts = [part.strip() for part in self.batch_sizes.split(",")]
        if not all(part.isdecimal() and 0 < int(part) <= 1 << 20 for part in parts):
            raise BadInput(f"--batch-sizes {self.batch_sizes!r}: must be whole numbers of 1 to {1 << 20}, by commas")
        return tuple(sorted(each_once("--batch-sizes", self.batch_sizes, [int(part) for part in parts])))

    def _old(self, engine: "Engine") -> "tuple[dict[str, str], dict[int, Configuration]]":
        """What the name of an old file tells, and its entries."""
        from ...tuning.engines.files import read_file

        if self.rerank is None:
            return {}, {}
        named, old = read_option("--rerank", self.rerank, read_file)
        named.pop("device_name", None)  # it may be ranked for another device
        if ("E" in named) != engine.experts:
            raise BadInput(f"--rerank {str(self.rerank)!r}: is no file of --format {engine.name}")
        return named, old


def _searched(engine: "Engine", space: "Space") -> "Engine":
    """The engine with values to try in place of its own. Raises: BadInput: it has no such parameter."""
    for name, values in space.every.items():
        if name not in engine.space:
            raise BadInput(f"--space or --sweep: {unknown(name, tuple(engine.space))}")
        if not all(type(value) is int and value > 0 for value in values):
            raise BadInput(f"--space or --sweep: {name} = {list(values)!r}: must be whole numbers of 1 or more")
    if space.of:
        raise BadInput(f"--space or --sweep: names a kernel, {next(iter(space.of))}: leave it out with this --format")
    tried = {name: tuple(map(int, space.every.get(name, values))) for name, values in engine.space.items()}
    return replace(engine, space=tried)


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

    from ...tuning.engines.files import entries, file_text, summary

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
