"""What a model of Hugging Face is called with: tensors that its config gives shapes to, and labels for its loss."""

import inspect
from typing import Any

import torch

from .file import Shape
from .model import MadeModel

IMAGES, SOUND, WAVES, IDS = "pixel_values", "input_features", "input_values", "input_ids"
FRAMES_PER_PLACE = 2
"""Frames of a spectrogram that Whisper's convolutions make a position of."""
OF_A_SAMPLE = (
    "ForSequenceClassification",
    "ForImageClassification",
    "ForAudioClassification",
    "ForVideoClassification",
)
"""Ends of names of classes whose labels are a number for each sample; OF_TOKENS: for each token; GENERATED: of tokens
that are written."""
OF_TOKENS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForTokenClassification", "ForPreTraining")
GENERATED = ("ForConditionalGeneration", "ForCTC", "ForSpeechSeq2Seq")


def inputs_of(made: MadeModel, shape: Shape) -> dict[str, Any]:
    """Inputs of a forward pass, or of a token of each sequence.

    Raises:
        UserError: a size is missing, or is for other models, or the model takes what a config does not describe.
    """
    model, takes = made.model, inspect.signature(made.model.forward).parameters
    main = model.main_input_name
    pairs = hasattr(model, "get_image_features") and hasattr(model, "get_text_features")
    wanted = [IDS, IMAGES] if pairs else [main]
    makers = {IDS: _ids, IMAGES: _images, SOUND: _spectrogram, WAVES: _waves}
    if unknown := [name for name in wanted if name not in makers]:
        raise made.unusable(f"takes {unknown[0]!r}: write a file with a function that runs it on what you have")
    given = {name: makers[name](made, shape) for name in wanted}
    writes = bool(getattr(made.config, "is_encoder_decoder", False)) and "decoder_input_ids" in takes
    if writes and not (shape.train and "labels" in takes):
        given["decoder_input_ids"] = _ids(made, shape)
    if shape.tokens and not writes and not {IDS, WAVES} & {*given}:
        raise made.unusable(f"--tokens {shape.tokens}: it takes images or sound, and no tokens: leave it away")
    if shape.held:
        cache = next((name for name in ("cache", "past_key_values") if name in takes), None)
        if writes or cache is None or wanted != [IDS] or not model.can_generate():
            raise made.unusable("--decode: it does not continue text token by token: give --tokens, or --batch")
        given |= {"use_cache": True, cache: _cache(made, shape)}
    elif "use_cache" in takes:
        given["use_cache"] = False
    return given


def labels_of(made: MadeModel, given: dict[str, Any], shape: Shape) -> dict[str, Any]:
    """Labels that make a model return its loss. Raises: UserError: it is unknown which it takes."""
    takes, classes, name = inspect.signature(made.model.forward).parameters, made.config.num_labels, made.name

    def drawn(below: int, *sizes: int) -> torch.Tensor:
        return torch.randint(0, max(below, 1), sizes, device="cuda")

    if "labels" in takes and name.endswith(OF_A_SAMPLE):
        return {"labels": drawn(classes, shape.batch)}
    if "labels" in takes and name.endswith("ForSemanticSegmentation"):
        return {"labels": drawn(classes, shape.batch, *given[IMAGES].shape[-2:])}
    if "start_positions" in takes:
        return {name: drawn(shape.tokens, shape.batch) for name in ("start_positions", "end_positions")}
    if "labels" in takes and name.endswith((*OF_TOKENS, *GENERATED)):
        below = classes if name.endswith("ForTokenClassification") else _vocabulary(made)
        more = {"next_sentence_label": drawn(2, shape.batch)} if "next_sentence_label" in takes else {}
        return {"labels": drawn(below, shape.batch, shape.tokens)} | more
    if "return_loss" in takes:
        return {"return_loss": True}
    raise made.unusable("--train: its labels are not known: write a file with a function that returns its loss")


def _ids(made: MadeModel, shape: Shape) -> torch.Tensor:
    if not shape.tokens:
        raise made.unusable("takes tokens: give --tokens N, of each sequence")
    return torch.randint(0, _vocabulary(made), (shape.batch, shape.tokens), device="cuda")


def _images(made: MadeModel, shape: Shape) -> torch.Tensor:
    """Images: [batch, channels, height, width]."""
    size = _setting(made, "image_size")
    if size is None:
        raise made.unusable('its config has no image_size: add one to the file, e.g. "image_size": 512')
    height, width = size[-2:] if isinstance(size, list | tuple) else (size, size)
    channels = _setting(made, "num_channels") or 3
    return torch.randn(shape.batch, channels, height, width, device="cuda", dtype=made.model.dtype)


def _spectrogram(made: MadeModel, shape: Shape) -> torch.Tensor:
    """Frames of sound as Whisper takes them: [batch, bins, frames]."""
    bins, places = (_setting(made, name) for name in ("num_mel_bins", "max_source_positions"))
    if not (bins and places):
        raise made.unusable("its config does not say how long its sound is: write a file with a function that runs it")
    return torch.randn(shape.batch, bins, FRAMES_PER_PLACE * places, device="cuda", dtype=made.model.dtype)


def _waves(made: MadeModel, shape: Shape) -> torch.Tensor:
    """Sound: [batch, samples]."""
    if not shape.tokens:
        raise made.unusable("takes samples of sound: give --tokens N, so many of each, e.g. 16000 for a second")
    return torch.randn(shape.batch, shape.tokens, device="cuda", dtype=made.model.dtype)


def _setting(made: MadeModel, name: str) -> Any:
    """What the file says, else transformers, of the model or of its part for images."""
    parts = (
        made.settings,
        made.settings.get("vision_config"),
        made.config,
        getattr(made.config, "vision_config", None),
    )
    values = (part.get(name) if isinstance(part, dict) else getattr(part, name, None) for part in parts)
    return next((value for value in values if value is not None), None)


def _vocabulary(made: MadeModel) -> int:
    size = getattr(made.config.get_text_config(), "vocab_size", None)
    if size is None:
        raise made.unusable("its config has no vocab_size: write a file with a function that runs it")
    return int(size)


def _cache(made: MadeModel, shape: Shape) -> Any:
    """A cache of keys and values that holds a number of tokens."""
    from transformers import DynamicCache

    cache, config = DynamicCache(), made.config.get_text_config()
    heads = config.num_attention_heads
    kept = getattr(config, "num_key_value_heads", None) or heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    size = (shape.batch, kept, shape.held, width)
    for layer in range(config.num_hidden_layers):
        keys, values = (torch.empty(size, dtype=made.model.dtype, device="cuda") for _ in "kv")
        cache.update(keys, values, layer)
    return cache
