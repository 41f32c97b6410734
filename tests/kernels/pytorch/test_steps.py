"""Steps of a user's file, recorded by a process of its own: what it launches, and what is said of it."""

import re
from pathlib import Path
from typing import Any

import pytest
from tilesight.kernels.compile.call import KernelLaunch
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

from tilesight.kernels.pytorch.file import Recorded, record_step
from tilesight.simulator.refusal import UserError

FILE = Path(__file__).with_name("steps.py")
WIDTH, WORDS, LENGTH, LAYERS = 64, 1000, 128, 2
PARAMETERS = WORDS * WIDTH + LAYERS * (2 * WIDTH + 2 * 4 * WIDTH * WIDTH + 5 * WIDTH)
"""Of the model of steps.py."""


def recorded(name: str, mode: Any = "eager", **options: Any) -> Recorded:
    """What a step of steps.py does."""
    train = bool(options.pop("train", False))
    return record_step(f"{FILE}:{name}", load_device("h200"), "h200", mode=mode, train=train, options=options)


def test_modules_have_paths_and_parameters_count_once() -> None:
    """Each matrix product names its layer; inputs() does not count; bytes of parameters are a closed form."""
    step = recorded("step").step
    products = [operation.module for operation in step.operations if operation.name == "addmm"]
    assert products == ["layers.0.up", "layers.0.down", "layers.1.up", "layers.1.down"]
    assert step.operations[0].name == "embedding" and step.operations[0].module == "words"
    assert step.parameter_bytes == 2 * PARAMETERS and step.notes == ()


def test_compiled_training_has_each_matrix_product_three_times_and_all_gradients() -> None:
    """Forward and backward are Inductor's; a linear layer has two products backward; ids of words have values."""
    made = recorded("step", "compiled", train=True)
    products = [operation for operation in made.step.operations if operation.name in ("addmm", "mm")]
    assert [operation.phase for operation in products] == ["forward"] * 4 + ["backward"] * 8
    assert made.step.mode == "compiled" and made.step.notes == ()
    assert all(isinstance(call, KernelLaunch) for call in made.calls)
    fused = [operation for operation in made.step.operations if operation.kind == "triton"]
    assert [number for operation in fused for number in operation.calls] == list(range(len(made.calls)))
    embedding = made.calls[fused[0].calls[0]]
    assert isinstance(embedding, KernelLaunch)
    assert [storage.size_bytes for storage in embedding.storages if storage.values] == [8 * LENGTH]


def test_a_whole_training_step_updates_all_parameters_in_joined_operations() -> None:
    """Phases follow each other; AdamW works on lists of all 13 parameters, as on a GPU."""
    step = recorded("adam", train=True).step
    phases = list(dict.fromkeys(operation.phase for operation in step.operations))
    assert phases == ["forward", "backward", "optimizer"] and step.notes == ()
    joined = [operation for operation in step.operations if operation.name.startswith("_foreach")]
    assert joined and all(len(operation.outputs) == 13 for operation in joined)
    backward = [operation.module for operation in step.operations if operation.phase == "backward"]
    assert {"layers.0.up", "layers.1.down", "words"} <= set(backward)


def test_lost_gradients_are_told() -> None:
    """A loss that is cut off from twelve parameters says so, and names some."""
    (note,) = recorded("detached", train=True).step.notes
    assert note.startswith("no gradient reaches 12 of 13 parameters (layers.0.norm.weight, ")


def test_what_the_host_reads_is_guessed_and_breaks_the_graph_aloud() -> None:
    """The guess, and the graph break with its line, are both noted."""
    notes = recorded("steered", "compiled").step.notes
    assert any(note.startswith("a bfloat16 that the host reads is not known: 1.0 is guessed (") for note in notes)
    assert any(note.startswith("graph break at steps.py:") and "item" in note for note in notes)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_a_shape_that_depends_on_data_ends_a_step(mode: str) -> None:
    """The operation and its line are named, whichever way the function runs; what came before it stays."""
    step = recorded("filtered", mode).step
    assert re.fullmatch(r"index at steps\.py:\d+: the shape of its output depends on [^\n]*", step.ended)
    assert step.operations


def test_indices_without_values_are_drawn_where_that_is_asked_for() -> None:
    """Else the kernel that reads them has no values, and knows who made them."""

    def indices(made: Recorded) -> list[Any]:
        reads = next(operation for operation in made.step.operations if operation.parts == ("embedding",))
        call = made.calls[reads.calls[0]]
        assert isinstance(call, KernelLaunch)
        return [storage for storage in call.storages if storage.size_bytes == 4 * 8]

    made = recorded("routed", "compiled", indices="uniform")
    (unknown,), (drawn,) = indices(recorded("routed", "compiled")), indices(made)
    assert unknown.values is None and unknown.origin == "made by topk"
    ids = [int.from_bytes(drawn.values[place : place + 8], "little") for place in range(0, 32, 8)]
    assert all(0 <= number < WORDS for number in ids) and len(set(ids)) > 1
    assert any(note.startswith("indices without values are drawn from 0 to 999") for note in made.step.notes)


def test_what_is_computed_of_drawn_values_lies_inside() -> None:
    """A kernel that sums five of them, doubles the sum and adds three looks up no row behind the table."""
    made = recorded("summed", "compiled", indices="uniform")
    reads = made.step.operations[-1]
    call = made.calls[reads.calls[0]]
    assert isinstance(call, KernelLaunch)
    (drawn,) = [storage.values for storage in call.storages if storage.size_bytes == 5 * LENGTH * 8]
    values = [int.from_bytes(drawn[place : place + 8], "little") for place in range(0, len(drawn), 8)]
    rows = [2 * sum(values[place : place + 5]) + 3 for place in range(0, len(values), 5)]
    assert 0 <= min(rows) < max(rows) < WORDS


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_the_users_kernels_stand_where_they_are_launched(mode: str) -> None:
    """One operation a launch; an autotuned one has a call a configuration; what it stores is its output."""
    made = recorded("launches", mode)
    ours = [operation for operation in made.step.operations if operation.name in ("double", "exp") or operation.parts]
    first, second, last = ours[-3:]
    assert (first.kind, len(first.calls), second.kind, len(second.calls)) == ("triton", 1, "triton", 2)
    assert first.outputs[0].storage == second.inputs[0].storage
    assert second.outputs[0].storage == last.inputs[0].storage
    assert all(isinstance(call, KernelLaunch) for call in made.calls)


def test_a_step_takes_the_inputs_that_are_named_after_it(tmp_path: Path) -> None:
    """`wide_loss` those of `wide`, which its file has none of for all of its name; `other` those of all steps."""
    text = ["import torch", *(f"def {name}_loss(x): return x.exp()" for name in ("wide", "other"))]
    text += [
        f"def {name}(): return torch.empty({size}, device='cuda')" for name, size in (("wide_inputs", 8), ("inputs", 2))
    ]
    (tmp_path / "several.py").write_text("\n".join(text), "utf-8")
    shapes = {
        name: record_step(f"{tmp_path}/several.py:{name}", load_device("h200"), "h200")
        .step.operations[0]
        .outputs[0]
        .shape
        for name in ("wide_loss", "other_loss")
    }
    assert shapes == {"wide_loss": (8,), "other_loss": (2,)}


def test_a_step_that_makes_its_inputs_says_that_this_counts() -> None:
    """The fill is an operation, and a note names the way out."""
    step = recorded("alone").step
    assert [operation.name for operation in step.operations] == ["randn", "mm"]
    assert "let a function `inputs`" in step.notes[0]


def test_wrong_targets_are_one_line() -> None:
    """Missing files, functions and options are told as ever."""
    for target, options, text in (
        ("nowhere.py:step", {}, "nowhere.py: no such file"),
        (f"{FILE}:stepp", {}, "did you mean step, "),
        (f"{FILE}:step", {"indices": "zeros"}, "option indices = 'zeros': must be 'uniform'"),
        (f"{FILE}:step", {"index": 1}, "option 'index': must be one of indices, timeout_s"),
    ):
        with pytest.raises(UserError) as error:
            record_step(target, load_device("h200"), "h200", options=options)
        assert text in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_grids_of_aligned_corners_are_cudnns(mode: str) -> None:
    """torch asks for a GPU's properties before it chooses, and a build for CUDA finds none here."""
    if mode == "eager":
        names = [operation.name for operation in recorded("sample", mode).step.operations]
        assert [name for name in names if "grid" in name] == ["cudnn_grid_sampler", "grid_sampler_2d"]
    else:
        (operation,) = [
            it for it in recorded("sample", mode).step.operations if "grid" in it.name and it.kind == "torch"
        ]
        assert operation.name == "cudnn_grid_sampler"


def test_gradients_of_every_row_are_those_of_a_batch() -> None:
    """What transforms of `torch.func` run is recorded; whole numbers that are known do not break them."""
    step = recorded("private").step
    assert not step.ended
    assert step.operations[-1].outputs[0].shape[0] == 32


def test_places_of_tables_behind_each_other_are_drawn_over_a_table() -> None:
    """Where tables begin is counted in the kernel, not read: it takes no room from what is read."""
    notes = recorded("hashed", "compiled", indices="uniform").step.notes
    assert any("drawn from 0 to 4,095" in note for note in notes), notes


def test_zeros_without_memory_are_on_the_device() -> None:
    """Compiled gradients of tangents multiply them."""
    step = recorded("curved", "compiled", train=True).step
    assert not step.ended
    assert sum(operation.name == "zeros" or operation.name == "fill_" for operation in step.operations) >= 1
