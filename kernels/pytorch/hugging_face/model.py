"""The model that a `config.json` of Hugging Face describes, without weights: `architectures` says of which class."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ....simulator.refusal import UserError
from .file import Shape

DEPTHS = (
    *("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    *("num_decoder_layers", "encoder_layers", "decoder_layers"),
)
"""Keys that hold numbers of layers."""
PARTS = ("text_config", "vision_config", "audio_config")
"""Keys that hold configs of parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeModel:
    """A model. Args: config: as transformers has it; settings: as the file has it; source: the file, for people."""

    model: Any
    config: Any
    settings: dict[str, Any]
    source: str

    @property
    def name(self) -> str:
        """Of its class."""
        return type(self.model).__name__

    def unusable(self, what: str) -> UserError:
        """An error that names the config. Args: what: is wrong, and what to do; one line."""
        return UserError(f"{self.source}: {self.name}: {what}")


def made_model(config: str, shape: Shape) -> MadeModel:
    """The model of a config, on the device that torch speaks of.

    Raises:
        UserError: `transformers` is missing, or makes no model of this config; one line.
    """
    try:
        import transformers
    except ModuleNotFoundError:
        raise UserError(f"transformers is not installed: {sys.executable} -m pip install transformers") from None
    except ImportError as error:
        raise UserError(f"transformers is installed, but cannot be imported: {_one_line(error)}") from None
    settings = _settings(config, shape)
    kind = str(settings.get("model_type", ""))
    try:
        made = transformers.AutoConfig.for_model(
            kind, **{name: settings[name] for name in settings if name != "model_type"}
        )
    except ValueError as error:
        if kind in transformers.CONFIG_MAPPING:
            raise UserError(f"{config}: {_one_line(error)}") from None
        raise UserError(f"{config}: model_type = {kind!r}: transformers {transformers.__version__} has none") from None
    dtype = getattr(torch, str(settings.get("dtype") or settings.get("torch_dtype") or "bfloat16"), torch.bfloat16)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        with torch.device("cuda"):
            model = _class_of(transformers, settings, config)(made)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{config}: {_one_line(error)}") from None
    finally:
        torch.set_default_dtype(before)
    return MadeModel(model=model, config=made, settings=settings, source=config)


def _class_of(transformers: Any, settings: dict[str, Any], config: str) -> Any:
    """What makes a model of a config: the class that it names, else the one that transformers has for its type."""
    named = (settings.get("architectures") or [""])[0]
    if named and isinstance(meant := getattr(transformers, named, None), type):
        return meant
    kinds = {f"AutoModel{head}": getattr(transformers, f"AutoModel{head}") for head in ("ForCausalLM", "")}
    for name, automatic in kinds.items():
        if type(transformers.CONFIG_MAPPING[settings["model_type"]]()) in automatic._model_mapping:
            if named:
                print(f"{config}: transformers has no class {named}: {name} is taken", file=sys.stderr)
            return automatic.from_config
    raise UserError(
        f"{config}: architectures = {[named] if named else []}: transformers {transformers.__version__} has none, nor "
        f"a model of model_type = {settings['model_type']!r}: write a file with a function that runs it"
    )


def _settings(config: str, shape: Shape) -> dict[str, Any]:
    """The config's keys, with fewer layers where that is asked for. Raises: UserError: the file is no config."""
    try:
        settings = json.loads(Path(config).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{config}: cannot be read as JSON ({error})") from None
    if not isinstance(settings, dict) or "model_type" not in settings:
        raise UserError(f"{config}: has no key 'model_type': must be the config.json of a Hugging Face model")
    if not shape.layers:
        return settings
    parts = {name: settings[name] for name in PARTS if isinstance(settings.get(name), dict)}
    if not any(name in part for part in (settings, *parts.values()) for name in DEPTHS):
        raise UserError(f"{config}: --layers {shape.layers}: it has no key for the number of its layers")
    shortened = {name: _with_layers(part, shape.layers) for name, part in parts.items()}
    return _with_layers(settings, shape.layers) | shortened


def _with_layers(settings: dict[str, Any], layers: int) -> dict[str, Any]:
    """A config of a number of layers; lists that say something of each layer are cut."""
    depths = {settings[name] for name in DEPTHS if isinstance(settings.get(name), int)}
    made: dict[str, Any] = {}
    for name, value in settings.items():
        if name in DEPTHS and isinstance(value, int):
            made[name] = layers
        elif isinstance(value, list) and len(value) in depths and name.startswith(("layer", "mlp_layer")):
            made[name] = value[:layers]
        else:
            made[name] = value
    return made


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
