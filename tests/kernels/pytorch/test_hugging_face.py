"""Models of Hugging Face from their configs: what they are called with, by their class and config; refusals."""

import json
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from tilesight.kernels.pytorch.file import record_step
from tilesight.kernels.pytorch.hugging_face.file import Shape, written_step
from tilesight.kernels.pytorch.hugging_face.inputs import inputs_of, labels_of
from tilesight.kernels.pytorch.hugging_face.model import MadeModel
from tilesight.kernels.pytorch.step import recording
from tilesight.simulator.refusal import UserError

H200 = load_device("h200")
VISION = {"image_size": 224, "num_channels": 3, "num_labels": 10}
TEXT = {"vocab_size": 100, "num_labels": 2}
WRITES = {**TEXT, "is_encoder_decoder": True, "num_mel_bins": 80, "max_source_positions": 1500}


def made(name: str, main: str, takes: str, settings: dict[str, Any], **more: Any) -> MadeModel:
    """A model of a class, as far as inputs ask for it. Args: main: its main input; takes: parameters."""
    config = SimpleNamespace(**settings)
    config.get_text_config = lambda: config
    forward = eval(f"lambda {takes}: None")
    attributes = {"main_input_name": main, "forward": staticmethod(forward), "dtype": torch.bfloat16, **more}
    attributes["can_generate"] = lambda self: "LM" in name
    return MadeModel(model=type(name, (), attributes)(), config=config, settings=settings, source="config.json")


def shapes(model: MadeModel, shape: Shape) -> dict[str, tuple[int, ...]]:
    """Inputs and labels of a step."""
    with recording(H200, train=shape.train):
        given = inputs_of(model, shape)
        given |= labels_of(model, given, shape) if shape.train else {}
    return {name: tuple(x.shape) if isinstance(x, torch.Tensor) else x for name, x in given.items()}


IDS, WIDE = (2, 16), (2, 3, 224, 224)
BERT = made("BertForMaskedLM", "input_ids", "input_ids, labels", TEXT)
VIT = made("ViTForImageClassification", "pixel_values", "pixel_values, labels", VISION)
T5 = made("T5ForConditionalGeneration", "input_ids", "input_ids, decoder_input_ids, labels, use_cache", WRITES)
WHISPER = made("WhisperForConditionalGeneration", "input_features", "input_features, decoder_input_ids, labels", WRITES)
SOUND = made("Wav2Vec2ForCTC", "input_values", "input_values, labels", TEXT)
CLIP = made(
    *("CLIPModel", "input_ids", "input_ids, pixel_values, return_loss", TEXT | VISION),
    **dict.fromkeys(("get_image_features", "get_text_features")),
)


@pytest.mark.parametrize(
    ("model", "shape", "given"),
    [
        (BERT, Shape(batch=2, tokens=16), {"input_ids": IDS}),
        (BERT, Shape(batch=2, tokens=16, train=True), {"input_ids": IDS, "labels": IDS}),
        (VIT, Shape(batch=2), {"pixel_values": WIDE}),
        (VIT, Shape(batch=2, train=True), {"pixel_values": WIDE, "labels": (2,)}),
        (T5, Shape(batch=2, tokens=16), {"input_ids": IDS, "decoder_input_ids": IDS, "use_cache": False}),
        (T5, Shape(batch=2, tokens=16, train=True), {"input_ids": IDS, "labels": IDS, "use_cache": False}),
        (WHISPER, Shape(batch=2, tokens=16), {"input_features": (2, 80, 3000), "decoder_input_ids": IDS}),
        (SOUND, Shape(batch=2, tokens=16000), {"input_values": (2, 16000)}),
        (CLIP, Shape(batch=2, tokens=16, train=True), {"input_ids": IDS, "pixel_values": WIDE, "return_loss": True}),
    ],
)
def test_models_are_called_with_what_their_class_takes(model: MadeModel, shape: Shape, given: dict[str, Any]) -> None:
    """Ids, images and sound by the config's sizes; decoders get ids, or make them of labels."""
    assert shapes(model, shape) == given


@pytest.mark.parametrize(
    ("model", "shape", "said"),
    [
        (BERT, Shape(batch=2), "BertForMaskedLM: takes tokens: give --tokens N"),
        (VIT, Shape(tokens=16), "--tokens 16: it takes images or sound, and no tokens: leave it away"),
        (BERT, Shape(tokens=1, held=8), "--decode: it does not continue text token by token"),
        (T5, Shape(tokens=1, held=8), "--decode: it does not continue text token by token"),
        (made("A", "pixel_values", "pixel_values", {"num_labels": 2}), Shape(), "its config has no image_size"),
        (made("A", "latents", "latents", TEXT), Shape(tokens=8), "takes 'latents': write a file with a function"),
        (made("A", "input_ids", "input_ids", TEXT), Shape(tokens=8, train=True), "--train: its labels are not known"),
    ],
)
def test_what_a_config_does_not_describe_is_one_line(model: MadeModel, shape: Shape, said: str) -> None:
    """It names the config, the class, and what to do."""
    with pytest.raises(UserError, match=said) as raised:
        shapes(model, shape)
    assert str(raised.value).startswith("config.json: ")
    assert "\n" not in str(raised.value)


SMALL = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128}
CONFIGS = {
    "BertForMaskedLM": {"model_type": "bert", **SMALL},
    "ViTForImageClassification": {"model_type": "vit", **SMALL},
    "Qwen3MoeForCausalLM": {
        **{"model_type": "qwen3_moe", **SMALL, "num_key_value_heads": 2, "head_dim": 16, "num_experts": 8},
        **{"moe_intermediate_size": 64, "layer_types": ["full_attention"] * 3},
    },
    "T5ForConditionalGeneration": {"model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 3},
}


@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
@pytest.mark.parametrize(
    ("architecture", "train"), [*((name, False) for name in CONFIGS), *((name, True) for name in list(CONFIGS)[:3])]
)
def test_classes_that_configs_name_are_run(tmp_path: Path, architecture: str, train: bool) -> None:
    """With two of their layers, each of which has attention once, and gradients of it in training."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIGS[architecture] | {"architectures": [architecture]}), encoding="utf-8")
    images = "Image" in architecture
    shape = Shape(batch=2, tokens=0 if images else 32, layers=2, train=train)
    step = record_step(written_step(config, shape), H200, "h200", train=train).step
    names = [operation.name for operation in step.operations]
    attention = [name for name in names if name.startswith("_scaled_dot_product") and "backward" not in name]
    written_out = names.count("_softmax")
    assert not step.ended
    assert len(attention) + written_out >= 2
    assert any("backward" in name for name in names) == train
