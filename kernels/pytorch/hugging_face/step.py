"""What a step of a Hugging Face model calls: the file that `file` writes for it.

    forward      as the model is called with what its config says: tokens, images, sound
    decode       one token for each of `batch` sequences, whose caches hold `held` tokens
    training     with labels, so that the model returns its loss

`transformers` makes the model; it is asked for nothing else, and never for the network.
"""

from typing import Any

import torch

from .file import Shape
from .inputs import inputs_of, labels_of
from .model import made_model


def model_inputs(config: str, shape: Shape) -> tuple[Any, dict[str, Any]]:
    """The model, and what it is called with, on the device that torch speaks of.

    Raises:
        UserError: `transformers` is missing, makes no model of this config, or takes other inputs; one line.
    """
    made = made_model(config, shape)
    given = inputs_of(made, shape)
    if shape.train:
        given |= labels_of(made, given, shape)
    torch.set_grad_enabled(shape.train)
    return made.model.train(shape.train), given


def run(model: Any, given: dict[str, Any]) -> Any:
    """Run the step. Returns: its loss where it has labels, else logits, or what a model without a head gives."""
    answer = model(**given)
    for name in ("loss", "logits"):
        if (value := getattr(answer, name, None)) is not None:
            return value
    return next(value for value in answer.to_tuple() if isinstance(value, torch.Tensor))
