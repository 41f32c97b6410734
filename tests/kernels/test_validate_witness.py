"""Witnesses on a CPU: poison, outputs that nobody wrote, and outputs that are old."""

from types import SimpleNamespace

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.simulate import launches_of

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from tilesight.validate.measure.output_checks import is_stale, poison, ran, untouched_fraction

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.float8_e4m3fn]
PROBLEM = AttentionProblem(batch=1, heads=2, seqlen_q=64, seqlen_k=96, head_dim=32)


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to wait for on a CPU."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


@pytest.mark.parametrize("dtype", DTYPES)
def test_poison_is_found_where_nobody_wrote(dtype: torch.dtype) -> None:
    """In every type, element by element."""
    output = torch.zeros((4, 8, 16), dtype=dtype)
    poison([output])
    assert untouched_fraction([output]) == 1.0
    output[1:] = 1
    assert untouched_fraction([output]) == 0.25
    output[0] = 0
    assert untouched_fraction([output]) == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_arithmetic_never_yields_poison(dtype: torch.dtype) -> None:
    """Infinities and the NaN of 0 / 0 are wrong outputs, and not unwritten ones."""
    zero = torch.zeros(4, dtype=dtype)
    assert untouched_fraction([zero / zero, 1 / zero, -1 / zero]) == 0.0


def test_outputs_of_several_tensors_count_by_element() -> None:
    """Half of the elements, though one tensor is untouched and one is not."""
    outputs = [torch.zeros(8), torch.zeros(8, dtype=torch.float16)]
    poison(outputs[:1])
    assert untouched_fraction(outputs) == 0.5


def test_a_result_that_follows_its_input_is_fresh_and_the_input_stays() -> None:
    """The input is negated for one run, and put back."""
    source = torch.randn(16)
    before, output = source.clone(), torch.empty(16)

    def run() -> None:
        output.copy_(2 * source)

    run()
    assert not is_stale(run, [output], source)
    assert torch.equal(source, before)
    assert torch.equal(output, 2 * before)


def test_a_remembered_result_is_stale() -> None:
    """It stays the same to the bit when the input changes."""
    output = torch.randn(16)
    assert is_stale(lambda: None, [output], torch.randn(16))


def test_outputs_of_zeros_say_nothing() -> None:
    """A problem whose rows see no key has them, and they do not change."""
    assert not is_stale(lambda: None, [torch.zeros(16)], torch.randn(16))


def test_what_triton_launched_is_told_as_it_is() -> None:
    """Registers, spills in bytes, shared memory and warps of the compiled kernel."""
    (launch,) = launches_of(PROBLEM, "flash2", None, load_device("h200"))
    metadata = SimpleNamespace(num_warps=12, shared=65536)
    kernel = SimpleNamespace(n_regs=168, n_spills=3, metadata=metadata, _init_handles=lambda: None)
    run = ran(launch.name, launch.grid, kernel)
    assert (run.name, run.grid, run.num_warps) == ("flash2", launch.grid, 12)
    assert (run.registers_per_thread, run.spilled_bytes_per_thread, run.smem_bytes_per_cta) == (
        168,
        12,
        65536,
    )
