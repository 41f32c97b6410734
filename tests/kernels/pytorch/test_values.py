"""Values that kernels of torch's compiler write where these depend on known numbers alone; scans that look back."""

from array import array
from collections.abc import Callable
from typing import Any, cast

import pytest
from tilesight.kernels.capture.file import UserCodeFailed
from tilesight.kernels.compile.call import KernelLaunch
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from tilesight.kernels.pytorch import file
from tilesight.kernels.pytorch.live import record_live as record
from tilesight.simulator.jobs.processes import WorkerDied

import tilesight

H200 = load_device("h200")
LENGTH = 9000


def packed(x: torch.Tensor) -> torch.Tensor:
    """As transformers find sequences that are packed into one: places at which positions do not go on, counted."""
    ids = torch.arange(LENGTH, device=x.device).unsqueeze(0)
    steps = torch.diff(ids, prepend=ids[:, :1] - 1, dim=-1)
    return x * ((steps != 1).cumsum(-1) == 0)


def last_call(function: Callable[..., object], *given: torch.Tensor, named: str) -> dict[str, bytes | None]:
    """What is known of the tensors of a compiled function's kernel, by its name."""
    calls = record(function, given, device=H200, mode="compiled").calls
    call = next(call for call in calls if named in call.name)
    assert isinstance(call, KernelLaunch)
    return {storage.name: storage.values for storage in call.storages}


def test_ranges_that_kernels_write_are_known_to_the_next() -> None:
    """Two kernels write parts of one tensor, a range and what comes before it; a third counts along it, from zeros."""
    known = last_call(packed, torch.empty(LENGTH, device="meta"), named="cumsum")
    assert known["in_ptr0"] is not None and [*array("q", known["in_ptr0"])] == [-1, *range(LENGTH)]
    assert known["ws_ptr"] is not None and not any(known["ws_ptr"])


def test_what_depends_on_unknown_numbers_stays_unknown() -> None:
    """The same range beside indices that nobody gives: their sum has no values."""

    def added(x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return x[(ids + torch.arange(64, device=x.device)).sort()[0]] * 2

    x, ids = torch.empty(256, device="meta"), torch.empty(64, dtype=torch.int64, device="meta")
    known = last_call(added, x, ids, named="index")
    assert known.get("in_ptr0") is None


def test_a_mask_of_torchs_own_is_one_full_block() -> None:
    """flex_attention without a mask: one block for each head and tile, which is block 0."""
    from torch.nn.attention.flex_attention import flex_attention

    x = torch.empty(1, 2, 512, 64, dtype=torch.float16, device="meta")
    known = last_call(lambda q: flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s - i + j), x, named="flex")
    masks = [known[name] for name in ("arg_KV_NUM_BLKS", "arg_KV_IDX")]
    assert [[*array("i", values or b"")] for values in masks] == [[1], [0]]


def test_a_scan_that_looks_back_is_predicted_as_a_lower_bound() -> None:
    """It waits for CTAs before it, and walks back until one has told all that is before: taken to find it at once."""
    profile = tilesight.profile(packed, torch.empty(LENGTH, device="meta"), device="h200", mode="compiled")
    (scan,) = [row.kernel for row in profile.rows if "cumsum" in row.kernel.name]
    assert profile.complete and scan.source == "simulated"
    assert "waits for other CTAs (it polls ws_ptr)" in scan.note and scan.note.startswith("a lower bound")


def test_a_hang_says_that_the_compiler_may_be_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes its time may be torch's compiler, and no fault of the code."""

    class Hanging:
        said = ""

        def __init__(self, _: str, noun: str, *__: Any) -> None:
            self.noun = noun

        def ask(self, *_: Any) -> None:
            raise WorkerDied(f"hang: the {self.noun} gave no answer in 120 s")

        def stop(self) -> None:
            pass

    monkeypatch.setattr(file, "WorkerProcess", Hanging)
    for mode, said in (
        ("eager", "code gave no answer"),
        ("compiled", "code, or torch's compiler at work on it, gave no"),
    ):
        with pytest.raises(UserCodeFailed, match=said):
            file.record_step(f"{__file__}:packed", H200, "h200", mode=cast(Any, mode))
