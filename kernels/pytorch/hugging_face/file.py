"""A Hugging Face config as a file as a user would write it; torch is not needed to write it."""

from dataclasses import dataclass
from pathlib import Path

from ..file import WrittenStep

FILE = '''"""A step of a Hugging Face model."""
from {package}.file import Shape
from {package}.step import model_inputs, run


def inputs():
    return model_inputs({config!r}, {shape!r})


def step(model, given):
    return run(model, given)
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a step is run at.

    Args:
        batch: sequences or images; tokens: new ones of each, 0: not said; held: of each that its cache holds.
        layers: of the model, 0: all of the config's; train: whether the loss is asked for.
    """

    batch: int = 1
    tokens: int = 0
    held: int = 0
    layers: int = 0
    train: bool = False


def written_step(config: Path, shape: Shape) -> WrittenStep:
    """A file whose function `step` runs the model at a shape. Args: config: a `config.json`."""
    text = FILE.format(package=__package__, config=str(config.resolve()), shape=shape)
    return WrittenStep(text=text, function="step")
