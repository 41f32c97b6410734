"""Nine functions as an H200 ran them, eager and compiled: the same kernels in the same order, with no GPU here."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.operation import RecordedStep

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

from pytorch.functions import FUNCTIONS, inputs_of
from tilesight.kernels.pytorch.step import recording

MEASURED = json.loads(Path(__file__).with_name("functions-h200.json").read_text())["functions"]
ELEMENTWISE = ("(vectorized_|unrolled_)?elementwise_kernel",)
KERNELS: dict[str, tuple[str, ...]] = {
    "mm": ("nvjet",),
    "bmm": ("nvjet",),
    "addmm": ("nvjet",),
    "_scaled_dot_product_cudnn_attention": ("cudnn.*sdpa",),
    "native_layer_norm": ("vectorized_layer_norm",),
    "mean": ("reduce_kernel",),
    "cat": ("CatArrayBatchedCopy",),
    "tril": ("triu_tril",),
    "_softmax": ("cunn_SoftMaxForward",),
    "_log_softmax": ("cunn_SoftMaxForward",),
    "nll_loss_forward": ("nll_loss_forward_reduce",),
    "masked_fill": ("Memcpy DtoD", *ELEMENTWISE),
}
"""Patterns of the kernels that an operation launches; all others launch an elementwise kernel."""
WORDS_OF_THAT_TORCH = {"exp", "sub"}
"""Operations that torch 2.11, which was measured, names in two kernels, and torch 2.13 does not."""


def recorded(name: str, mode: Any) -> RecordedStep:
    """What one of the functions launches on an H200."""
    with recording(load_device("h200"), mode) as session:
        session.run(FUNCTIONS[name], inputs_of(name))
        return session.step()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_eager_functions_launch_the_kernels_that_were_measured_in_order(name: str) -> None:
    """Each operation's kernels are those that the GPU ran at that place, and no kernel is left over."""
    step = recorded(name, "eager")
    patterns = [pattern for operation in step.operations for pattern in KERNELS.get(operation.name, ELEMENTWISE)]
    kernels = [kernel for kernel, _ in MEASURED[name]["eager"]]
    assert step.mode == "eager" and not step.notes
    assert len(kernels) == len(patterns)
    assert [kernel for kernel, pattern in zip(kernels, patterns, strict=True) if not re.match(pattern, kernel)] == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_functions_launch_the_kernels_that_were_measured_in_order(name: str) -> None:
    """Inductor's kernels have the names that they had on the GPU, and vendor's kernels stand between them as there."""
    step = recorded(name, "compiled")
    kernels = [kernel for kernel, _ in MEASURED[name]["compiled"]]
    assert step.mode == "compiled" and not step.notes
    assert len(kernels) == len(step.operations)
    for kernel, operation in zip(kernels, step.operations, strict=True):
        if operation.kind == "torch":
            assert re.match(KERNELS[operation.name][0], kernel)
            continue
        assert operation.calls and operation.parts and operation.inputs and operation.outputs
        ours, theirs = operation.name.split("_"), kernel.split("_")
        assert (ours[:3], ours[-1]) == (theirs[:3], theirs[-1])
        assert set(ours) ^ set(theirs) <= WORDS_OF_THAT_TORCH


def test_layer_runs_lines_of_its_file_and_shares_storages_with_views() -> None:
    """Operations know the lines that they come from; the value projection's storage is what attention reads."""
    step = recorded("layer", "eager")
    assert all(operation.where.startswith("functions.py:") for operation in step.operations)
    attention = next(operation for operation in step.operations if "attention" in operation.name)
    projection = [operation for operation in step.operations if operation.name == "mm"][2]
    assert attention.inputs[2].storage == projection.outputs[0].storage
    assert attention.inputs[2].shape == (1, 8, 4096, 128) and attention.inputs[2].strides == (4194304, 128, 1024, 1)
    assert dict(attention.arguments)["is_causal"] is True
