"""A Hugging Face config as a step of its model, without weights: a file as a user would write it, and what that calls.

    forward      `tokens` in one sequence, as `model(input_ids)` has it
    decode       one token for each of `batch` sequences, whose caches hold `held` tokens
    training     with `labels`, so that the model returns its loss

`transformers` makes the model; it is asked for nothing else, and never for the network.
"""

import inspect
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..capture.user_function import Unusable

FILE = '''"""A step of a Hugging Face model."""
from {module} import Shape, model_inputs, run


def inputs():
    return model_inputs({config!r}, {shape!r})


def step(model, given):
    return run(model, given)
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a step is run at.

    Args:
        batch: sequences; tokens: new ones of each; held: of each that its cache holds.
        layers: of the model, 0: all of the config's; train: whether the loss is asked for.
    """

    batch: int = 1
    tokens: int = 1
    held: int = 0
    layers: int = 0
    train: bool = False


def step_file(config: Path, shape: Shape) -> str:
    """The text of a file whose function `step` runs the model at a shape. Args: config: a `config.json`."""
    return FILE.format(module=__name__, config=str(config.resolve()), shape=shape)


def model_inputs(config: str, shape: Shape) -> tuple[Any, dict[str, Any]]:
    """The model, and what it is called with, on the device that torch speaks of.

    Raises:
        Unusable: `transformers` is missing, or makes no model of this config; one line.
    """
    try:
        import transformers
    except ImportError:
        raise Unusable(f"transformers is not installed: {sys.executable} -m pip install transformers") from None
    settings = _settings(config, shape)
    dtype = getattr(torch, str(settings.get("dtype") or settings.get("torch_dtype") or "bfloat16"), torch.bfloat16)
    kind = str(settings.get("model_type", ""))
    try:
        made = transformers.AutoConfig.for_model(
            kind, **{name: settings[name] for name in settings if name != "model_type"}
        )
    except ValueError:
        raise Unusable(f"{config}: model_type = {kind!r}: transformers {transformers.__version__} has none") from None
    made._attn_implementation = "sdpa"
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        with torch.device("cuda"):
            model = transformers.AutoModelForCausalLM.from_config(made)
    except ValueError as error:
        reason = " ".join(str(error).split())[:300]
        if reason.startswith("Unrecognized configuration class"):
            reason = f"model_type = {kind!r}: continues no text: write a file with a function that runs the model"
        raise Unusable(f"{config}: {reason}") from None
    finally:
        torch.set_default_dtype(before)
    ids = torch.randint(0, int(made.vocab_size), (shape.batch, shape.tokens), device="cuda")
    given: dict[str, Any] = {"input_ids": ids, "use_cache": bool(shape.held)}
    if shape.train:
        given["labels"] = ids
    if shape.held:
        takes = inspect.signature(model.forward).parameters
        # Of transformers 5.40 and newer; older ones warn of none.
        name = "past_key_values" if "cache" not in takes else "cache"
        given[name] = _cache(transformers, made, shape, dtype)
    return model.train(shape.train), given


def run(model: Any, given: dict[str, Any]) -> Any:
    """Run the step. Returns: logits; in training the loss."""
    answer = model(**given)
    return answer.logits if answer.loss is None else answer.loss


def _settings(config: str, shape: Shape) -> dict[str, Any]:
    """The config's keys, with fewer layers where that is asked for. Raises: Unusable: the file is no config."""
    try:
        settings = json.loads(Path(config).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise Unusable(f"{config}: cannot be read as JSON ({error})") from None
    if not isinstance(settings, dict) or "model_type" not in settings:
        raise Unusable(f"{config}: has no key 'model_type': must be the config.json of a Hugging Face model")
    depth = next((name for name in ("num_hidden_layers", "n_layer", "num_layers") if name in settings), None)
    if shape.layers and depth is None:
        raise Unusable(f"{config}: --layers {shape.layers}: it has no key for the number of its layers")
    return settings | ({depth: shape.layers} if shape.layers and depth else {})


def _cache(transformers: Any, config: Any, shape: Shape, dtype: torch.dtype) -> Any:
    """A cache of keys and values that holds so many tokens."""
    cache = transformers.DynamicCache()
    heads = config.num_attention_heads
    kept = getattr(config, "num_key_value_heads", None) or heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    for layer in range(config.num_hidden_layers):
        keys, values = (torch.empty(shape.batch, kept, shape.held, width, dtype=dtype, device="cuda") for _ in "kv")
        cache.update(keys, values, layer)
    return cache
