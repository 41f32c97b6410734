"""What Triton rejects is refused, and what it ignores is noted, each in a line with the cure."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.refusal import UserError

import tilesight

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from tilesight.kernels.capture.recorded import Recording
from tilesight.kernels.capture.user_function import lacks_grid, module_of, raised_by, user_function

TEXT = """
import torch, triton
import triton.language as tl

@triton.jit
def k(X, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(X + i, 1.0, mask=i < n)

@triton.autotune([triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 512})], key=["n", "N"])
@triton.jit
def tuned(X, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(X + i, 1.0, mask=i < n)

def blocks(meta):
    return (triton.cdiv(1024, meta["BLOCK"]),)

def run():
    k[(4,)](torch.empty(1024, device="cuda"), 1024, BLOCK=256)

def called():
    k(torch.empty(1024, device="cuda"), 1024, BLOCK=256)

def takes(n):
    pass
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """A user's file, loaded."""
    path = tmp_path_factory.mktemp("mine") / "mistaken.py"
    path.write_text(TEXT)
    return module_of(path)


def recorded(launch: Callable[[torch.Tensor], object], device: str = "cuda") -> Recording:
    """What is recorded of a launch."""
    with tilesight.capture() as launches:
        launch(torch.empty(1024, device=device))
    return launches


@pytest.mark.parametrize(
    ("grid", "why"),
    [
        ((1024 / 256,), "grid (4.0,): 4.0 is no whole number: triton.cdiv(n, BLOCK), or n // BLOCK"),
        (lambda meta: (1, 1024 / meta["BLOCK"]), "grid (1, 4.0): 4.0 is no whole number"),
        (4, "grid 4: Triton takes a tuple: (4,)"),
    ],
)
def test_a_grid_that_triton_rejects_is_refused(mine: ModuleType, grid: object, why: str) -> None:
    """Its launcher takes a sequence of whole numbers alone."""
    (launch,) = recorded(lambda x: mine.k[grid](x, 1024, BLOCK=256))
    assert launch.refused is not None and launch.refused.startswith(f"kernel k: {why}")


@pytest.mark.parametrize("given", [{"BLOCK": 512}, {"num_warps": 8}])
def test_what_is_passed_and_autotuned_is_refused(mine: ModuleType, given: dict[str, int]) -> None:
    """Triton: conflicting meta-parameters, or several values for a keyword; the next launch is as ever."""

    def launch(x: torch.Tensor) -> None:
        mine.tuned[mine.blocks](x, 1024, **given)
        mine.tuned[mine.blocks](x, 1024)

    first, *others = recorded(launch)
    (name,) = given
    assert first.refused and f"{name} is passed, and set by @triton.autotune as well" in first.refused
    assert len(others) == 2 and not any(other.refused for other in others)


def test_a_key_that_names_no_argument_is_noted(mine: ModuleType) -> None:
    """Triton leaves it out."""
    notes = " ".join(recorded(lambda x: mine.tuned[mine.blocks](x, 1024)).notes)
    assert "kernel tuned: key of @triton.autotune names N," in notes


def test_floats_on_the_cpu_are_noted(mine: ModuleType) -> None:
    """On a GPU Triton refuses them; those on the GPU get no note."""
    notes = [recorded(lambda x: mine.k[4,](x, 1024, BLOCK=256), device).notes for device in ("cpu", "cuda")]
    assert "CPU tensors of floats" in " ".join(notes[0]) and not notes[1]


def test_a_kernel_that_is_named_as_a_function_is_told_how_to_launch_it(mine: ModuleType) -> None:
    """Autotuned or not."""
    for name in ("k", "tuned"):
        with pytest.raises(UserError, match=rf"{name} is a kernel: name a function that launches it: .*{name}\[grid\]"):
            user_function(Path(str(mine.__file__)), name)


def test_a_kernel_that_is_called_without_a_grid_is_told_so(mine: ModuleType) -> None:
    """With the line of the call."""
    with tilesight.capture(), pytest.raises(RuntimeError) as error:
        mine.called()
    text = raised_by(error.value, Path(str(mine.__file__)))
    assert lacks_grid(error.value) and text.startswith(
        "a kernel is called without a grid (mistaken.py:23): kernel[grid]"
    )


def test_an_unknown_function_is_answered_with_those_that_can_be_named(mine: ModuleType) -> None:
    """Those that take no arguments."""
    with pytest.raises(UserError, match=r"function 'nope' is unknown; known are run, called$"):
        user_function(Path(str(mine.__file__)), "nope")
