"""Weights of models, counted from their shapes, against the counts that their checkpoints publish."""

import pytest
from tilesight.simulator.models.catalogue import load_model
from tilesight.simulator.models.config_json import model_of

PUBLISHED = {
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "qwen-2.5-7b": 7_615_616_512,
    "qwen-2.5-72b": 72_706_203_648,
    "qwen-3-8b": 8_190_735_360,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen-3-30b-a3b": 30_532_122_624,
}
"""Elements of the safetensors files on Hugging Face."""
CHECKPOINTS_GIB = {"gpt-oss-20b": 12.8, "gpt-oss-120b": 60.8}
"""Model card of gpt-oss (2025), Table 1."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_weights_are_as_many_as_the_checkpoint_holds(name: str) -> None:
    """To the last element, two bytes each."""
    assert load_model(name).weight_bytes == 2 * PUBLISHED[name]


@pytest.mark.parametrize("name", CHECKPOINTS_GIB)
def test_experts_in_four_bits_are_as_large_as_published(name: str) -> None:
    """MXFP4 with its scales beside bf16."""
    assert load_model(name).weight_bytes / 2**30 == pytest.approx(CHECKPOINTS_GIB[name], abs=0.05)


@pytest.mark.parametrize(
    "changed",
    [
        {"model_type": "new"},
        {"quantization_config": {"quant_method": "awq"}},
        {"attention_bias": True},
        {"vocab_size": 0},
    ],
)
def test_weights_that_are_not_known_are_not_counted(changed: dict[str, object]) -> None:
    """Another model type, another quantization, tensors more, or a size that the file lacks."""
    shape = {"hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 4, "num_hidden_layers": 2}
    known = {**shape, "vocab_size": 1000, "model_type": "llama", "torch_dtype": "bfloat16"}
    assert model_of(known, "it").weight_bytes > 0
    assert model_of(known | changed, "it").weight_bytes == 0
