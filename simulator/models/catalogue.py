"""Models by name, from `models.toml`; or by the path of a config.json."""

import json
import re
import tomllib
from functools import cache
from importlib import resources
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from ..arguments import shown
from ..names import unknown
from ..problems.attention import AttentionProblem
from .config_json import model_of
from .model import Model

NOT_OF_SHAPE = ("meta", "instruct", "it", "chat", "base", "hf")
"""Words of checkpoints' names that change no shape."""


@cache
def _entries() -> dict[str, dict[str, Any]]:
    text = (resources.files(__package__) / "models.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def models() -> list[str]:
    """Names that `load_model` knows, in the order of the catalogue."""
    return list(_entries())


def source(name: str) -> str:
    """Where the numbers of a model of the catalogue were looked up."""
    return str(_entries()[name]["source"])


def _squashed(name: str) -> str:
    """A name as people may write it, e.g. `meta-llama/Meta-Llama-3-8B-Instruct` -> `llama38b`."""
    words = re.findall(r"[a-z]+|\d+", name.lower().rpartition("/")[2])
    return "".join(word for word in words if word not in NOT_OF_SHAPE)


def load_model(name: str | PathLike[str]) -> Model:
    """A model by its name in the catalogue, in any case and with any separators, or by the path of its config.json.

    Raises:
        ValueError: unknown name; a file that cannot be read; an attention that is not answered. The text says which.
    """
    text = fspath(name) if isinstance(name, PathLike) else name
    if not isinstance(text, str):
        raise ValueError(f"model = {shown(name)}: must be a name such as 'llama-3-8b', or the path of a config.json")
    if text.endswith(".json"):
        named, config = text, _read(text)
    else:
        named = _entry(text)
        config = _entries()[named]
    try:
        return model_of(config, named)
    except ValueError as error:
        raise ValueError(f"model {named!r}: {error}") from None


def _entry(text: str) -> str:
    """The name in the catalogue. Raises: ValueError: there is none; the text names the nearest."""
    file = Path(text) / "config.json"
    if file.is_file():
        raise ValueError(f"model {text!r}: is a folder; give {str(file)!r}")
    names = {_squashed(also): entry for entry, keys in _entries().items() for also in (entry, *keys.get("also", ()))}
    if _squashed(text) not in names:
        raise ValueError(f"model {unknown(text, models())} (or give the path of a config.json)")
    return names[_squashed(text)]


def _read(path: str) -> dict[str, Any]:
    """The keys of a config.json. Raises: ValueError: it cannot be read."""
    try:
        config = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"model {path!r}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise ValueError(f"model {path!r}: is no JSON ({error})") from None
    if not isinstance(config, dict):
        raise ValueError(f"model {path!r}: must hold an object, as the config.json of a checkpoint")
    return config


def every_model() -> tuple[dict[str, Model], list[str]]:
    """The models of the catalogue that are answered, by name; and of each other one why it is not, in a line."""
    answered, refused = {}, []
    for name in models():
        try:
            answered[name] = load_model(name)
        except ValueError as error:
            refused.append(str(error))
    return answered, refused


def model_problem(
    model: str | PathLike[str] | Model,
    *,
    batch: int,
    seqlen_q: int,
    seqlen_k: int,
    tp: int = 1,
    layers: str | None = None,
    decode: bool = False,
    padded: bool = True,
) -> AttentionProblem:
    """The attention of one layer of a model, on one of `tp` GPUs that share its heads.

    Args:
        model: a name such as `llama-3-70b`, the path of a config.json, or what `load_model` returns; what its
            attention has that the problem does not is in `load_model(...).notes`.
        batch: sequences; seqlen_q, seqlen_k: query and key length; for a step of decoding seqlen_q is 1.
        tp: GPUs that share the heads.
        layers: "global" or "local", of a model that has both; global where it is None.
        decode: whether latent attention is over latents, as in a step of decoding.
        padded: whether values that are narrower than keys are padded to their width, as all schedules but
            `masked_flash` need them.

    Raises:
        ValueError: as `load_model`; or a number is not allowed.
    """
    loaded = model if isinstance(model, Model) else load_model(model)
    kind = loaded.decoded if decode else AttentionProblem
    shape = {"batch": batch, "seqlen_q": seqlen_q, "seqlen_k": seqlen_k}
    return loaded.problem(**shape, tp=tp, layers=layers, kind=kind, padded=padded)
