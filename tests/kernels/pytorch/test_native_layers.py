"""Layers that torch's native code makes of other operations, written out: the same numbers, and what they launch."""

from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from tilesight.kernels.pytorch.file import record_step
from tilesight.kernels.pytorch.layers.cudnn import shaped, whole_layers
from tilesight.kernels.pytorch.layers.native import SHAPES, encoder_layer, multi_head_attention

WIDTH, HEADS, TOKENS = 32, 4, 6
FILE = Path(__file__).with_name("steps.py")


def drawn(*shape: int) -> torch.Tensor:
    """Numbers in double precision, the same each time."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("given", [1, 2, 3])
@pytest.mark.parametrize("masked", [True, False])
def test_attention_gives_the_numbers_of_torchs_native_code(given: int, masked: bool) -> None:
    """Of itself, of pairs of keys and values, of three tensors; averaged weights; and with padding hidden."""
    others = [drawn(2, TOKENS, WIDTH + 1)[..., 1:].contiguous() + number for number in range(given)]
    query, key, value = others[0], others[min(1, given - 1)], others[-1]
    weights = (drawn(3 * WIDTH, WIDTH), drawn(3 * WIDTH), drawn(WIDTH, WIDTH), drawn(WIDTH))
    mask = torch.arange(TOKENS)[None] > torch.tensor([[3], [4]]) if masked else None
    arguments = (query, key, value, WIDTH, HEADS, *weights, mask, True, True, 1 if masked else None)
    for made, native in zip(
        multi_head_attention(*arguments), torch._native_multi_head_attention(*arguments), strict=True
    ):
        assert made is not None
        torch.testing.assert_close(made, native)


@pytest.mark.parametrize("more", [(), (None, True, True), (None, True, False)])
def test_tensors_without_data_get_the_shapes_of_torchs_native_code(more: tuple[object, ...]) -> None:
    """A compiler asks for them: what attention gives, and its weights, averaged over heads or not."""
    given = (*(drawn(2, TOKENS, WIDTH) for _ in "qkv"), WIDTH, HEADS)
    given += (drawn(3 * WIDTH, WIDTH), drawn(3 * WIDTH), drawn(WIDTH, WIDTH), drawn(WIDTH))
    empty = tuple(part.to("meta") if isinstance(part, torch.Tensor) else part for part in given)
    with shaped(SHAPES):
        made = torch._native_multi_head_attention(*empty, *more)
    shapes = [part.shape for part in torch._native_multi_head_attention(*given, *more)]
    assert [part.shape for part in made] == shapes


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("gelu", [True, False])
def test_an_encoder_layer_gives_the_numbers_of_torchs_native_code(norm_first: bool, gelu: bool) -> None:
    """Norms before and after, with GELU and ReLU, padding hidden."""
    mask = torch.arange(TOKENS)[None] > torch.tensor([[3], [4]])
    arguments = (
        *(drawn(2, TOKENS, WIDTH), WIDTH, HEADS),
        *(drawn(3 * WIDTH, WIDTH), drawn(3 * WIDTH), drawn(WIDTH, WIDTH), drawn(WIDTH), gelu, norm_first, 1e-5),
        *(drawn(WIDTH), drawn(WIDTH), drawn(WIDTH), drawn(WIDTH)),
        *(drawn(4 * WIDTH, WIDTH), drawn(4 * WIDTH), drawn(WIDTH, 4 * WIDTH), drawn(WIDTH), mask, 1),
    )
    torch.testing.assert_close(encoder_layer(*arguments), torch._transformer_encoder_layer_fwd(*arguments))


def test_an_encoder_layer_is_recorded_part_by_part() -> None:
    """As torch's native code launches it on an H200: fused attention, an activation with its product, sums in place."""
    layer = [
        *("addmm", "_scaled_dot_product_cudnn_attention", "addmm", "add_", "native_layer_norm"),
        *("_addmm_activation", "addmm", "add_", "native_layer_norm"),
    ]
    for name, more in (("encode", []), ("infer", ["bmm"])):
        made = record_step(f"{FILE}:{name}", load_device("h200"), "h200").step
        launched = [operation.name for operation in made.operations]
        assert launched[launched.index("addmm") :] == layer + more, name


def test_a_recurrent_layer_is_one_operation_and_a_cell_another() -> None:
    """A GPU runs a layer whole, in cuDNN; builds for CPUs take both apart, and know no shapes of a cell's."""
    made = record_step(f"{FILE}:remember", load_device("h200"), "h200").step
    names = ("_thnn_fused_gru_cell", "_cudnn_rnn")
    first, layer = (operation for operation in made.operations if operation.name in names)
    assert (first.name, layer.name) == names
    assert [operand.shape for operand in layer.outputs[:3]] == [(1, 2, 64)] * 3
    known = {"mode": 2, "hidden_size": 64, "num_layers": 1, "batch_first": False, "weight_stride0": 4}
    assert {name: layer.arguments[name] for name in known} == known
    assert not made.ended


def test_a_recurrent_layer_has_one_gradient() -> None:
    """Of its input, its state and all weights, of two layers in both directions: four gates, three, and one."""
    made = record_step(f"{FILE}:learn", load_device("h200"), "h200", train=True).step
    assert not made.ended
    backs = [operation for operation in made.operations if operation.name == "_cudnn_rnn_backward"]
    assert len(backs) == 3
    for back, gates in zip(backs, (4, 3, 1), strict=True):
        shapes = [operand.shape for operand in back.outputs]
        weights = [(32 * gates, 64), (32 * gates, 32), (32 * gates,), (32 * gates,)]
        assert [shapes.count(weight) for weight in weights] == [4, 4, 8, 8]


def test_a_recurrent_layer_of_the_host_stays_there() -> None:
    """It gives the numbers that it gives without a recorder."""
    layer, x = torch.nn.GRU(4, 4), drawn(3, 2, 4).float()
    expected = layer(x)[0]
    with whole_layers():
        torch.testing.assert_close(layer(x)[0], expected)


def test_what_a_cell_of_a_recurrent_layer_needs_is_free_before_the_next() -> None:
    """Gates of two products and what a gradient would need: alive from the first of them to the end of the cell."""
    made = record_step(f"{FILE}:repeat_cell", load_device("h200"), "h200").step
    step = [operation for operation in made.operations if operation.name in ("mm", "addmm", "_thnn_fused_gru_cell")]
    first, _, cell, *_ = step
    assert [operation.live_bytes for operation in step[2::3]] == [cell.live_bytes] * 4
    state_bytes = cell.outputs[0].bytes
    assert cell.live_bytes - first.live_bytes == (3 + 1 + 5) * state_bytes
    assert made.peak_bytes == cell.live_bytes
