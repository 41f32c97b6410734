"""Training steps: what their optimizers launch in the steady state, eager and compiled."""

from typing import Literal

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

from pytorch import recomputed, trained
from pytorch.trained import WIDTH
from tilesight.kernels.pytorch.file import record_step
from tilesight.simulator.operations.operation import Operation, RecordedStep


def recorded(mode: Literal["eager", "compiled"], name: str = "step", train: bool = True) -> RecordedStep:
    """A step of AdamW on one layer, in a process of its own; or another of its file."""
    return record_step(f"{trained.__file__}:{name}", load_device("h200"), "h200", mode=mode, train=train).step


def of_optimizer(step: RecordedStep) -> list[Operation]:
    """What its optimizer launches."""
    return [operation for operation in step.operations if operation.phase == "optimizer"]


def test_an_optimizer_updates_without_making_its_state_anew() -> None:
    """Joined operations alone, of parameters that the module has on the device; none that fills a new tensor."""
    step = recorded("eager")
    names = [operation.name for operation in of_optimizer(step)]
    assert names and all(name.startswith("_foreach_") for name in names)
    assert max(operation.inputs[0].elements for operation in of_optimizer(step)) == WIDTH * WIDTH
    assert not step.notes


def test_a_step_holds_parameters_gradients_and_two_moments() -> None:
    """In bf16, beside activations that are smaller than these: four tensors of the weight's size."""
    weight_bytes = 2 * WIDTH * WIDTH
    peak_bytes = recorded("eager").peak_bytes
    assert 4 * weight_bytes <= peak_bytes <= 6 * weight_bytes


def test_a_compiled_optimizer_is_one_kernel() -> None:
    """`torch.compile` fuses what it does to one parameter; the step's count beside it."""
    kernels = [operation for operation in of_optimizer(recorded("compiled")) if operation.kind == "triton"]
    assert 1 <= len(kernels) <= 2
    assert any(operand.elements == WIDTH * WIDTH for kernel in kernels for operand in kernel.outputs)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_a_step_that_runs_its_own_backward_pass_needs_no_option(mode: Literal["eager", "compiled"]) -> None:
    """Gradients are on until the code turns them off: the same operations, in the steady state, and the same peak."""
    asked, unasked = recorded(mode), recorded(mode, train=False)
    works_of = [[(work.kind, work.phase, work.outputs) for work in step.operations] for step in (asked, unasked)]
    assert [len(works) for works in works_of] == [len(asked.operations)] * 2
    assert [(kind, phase) for kind, phase, _ in works_of[0]] == [(kind, phase) for kind, phase, _ in works_of[1]]
    assert asked.peak_bytes == unasked.peak_bytes and unasked.notes == asked.notes


def test_a_forward_pass_keeps_what_its_backward_pass_would_read() -> None:
    """Three GELUs in a row keep their inputs for gradients; under no_grad two tensors are alive at a time."""
    size = 2 * 64 * WIDTH
    weight_bytes = 2 * WIDTH * WIDTH
    kept, free = (recorded("eager", name, train=False).peak_bytes for name in ("chain", "chain_without"))
    assert kept == weight_bytes + 5 * size  # x, its product, and three results of which two are inputs
    assert free == weight_bytes + 3 * size  # x, an input and a result


def test_a_training_step_that_depends_on_data_shows_what_it_had_launched() -> None:
    """Though the step ahead of it, which does not count, ends there too."""
    step = record_step(f"{trained.__file__}:chosen", load_device("h200"), "h200", train=True).step
    assert [operation.name for operation in step.operations][:1] == ["mm"]
    assert step.ended.startswith("index at trained.py:")


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_what_is_recomputed_runs_twice(mode: Literal["eager", "compiled"]) -> None:
    """Attention forward, and again in the backward pass, though random numbers follow it; its gradient once."""
    target = f"{recomputed.__file__}:step"
    step = record_step(target, load_device("h200"), "h200", mode=mode, train=True).step
    attention = "_scaled_dot_product_cudnn_attention"
    assert [work.phase for work in step.operations if work.name == attention] == ["forward", "backward"]
    assert [work.phase for work in step.operations if work.name == f"{attention}_backward"] == ["backward"]
