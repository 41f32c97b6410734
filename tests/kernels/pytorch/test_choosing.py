"""What torch's compiler would time is chosen by prediction: templates against the library, and CUDA graphs."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
import torch.nn.functional as F
from tilesight.kernels.capture.recorded import RecordedLaunch
from tilesight.kernels.pytorch.choosing.selection import LEAST_S, MOST_PREDICTED, MOST_TRIED
from tilesight.kernels.pytorch.live import record_live
from tilesight.kernels.pytorch.step import recording
from tilesight.simulator.operations.operation import RecordedStep
from tilesight.simulator.operations.price import price_step

H200 = load_device("h200")
FASTEST_S, SLOWEST_S = 1e-9, 1.0
TEMPLATE = "triton_mm"
"""Name of the kernel of a template that is tried alone."""
TUNED = {"options": {"max_autotune": True}}


def mlp(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A product, and what may be fused to it."""
    return F.gelu(F.linear(x, w) * 2)


def recorded(
    function: Any, template_s: float | None = None, **options: Any
) -> tuple[RecordedStep, list[RecordedLaunch]]:
    """A function compiled with options, and the templates that were asked for. Args: template_s: that each takes."""
    asked: list[RecordedLaunch] = []

    def times(captures: Sequence[RecordedLaunch]) -> list[float | None]:
        asked.extend(capture for capture in captures if capture.name == TEMPLATE)
        return [template_s if capture.name == TEMPLATE else FASTEST_S for capture in captures]

    with recording(H200, times=times) as session:
        x, w = torch.randn(1024, 2048, device="cuda").bfloat16(), torch.randn(4096, 2048, device="cuda").bfloat16()
        session.run(torch.compile(function, **options), (x, w))
        return session.step(), asked


def test_a_template_that_is_predicted_to_be_faster_wins_and_holds_what_follows() -> None:
    """One kernel of Triton's: the product and the functions after it."""
    step, _ = recorded(mlp, FASTEST_S, **TUNED)
    (kernel,) = step.operations
    assert kernel.kind == "triton" and set(kernel.parts) >= {"mm", "gelu"} and step.mode == "max-autotune"
    assert step.notes[0].startswith("max-autotune: mm of 1024x2048 and 2048x4096: the library takes ")
    assert step.notes[0].endswith(" the best of 3 of 21 templates 1 ns")


@pytest.mark.parametrize("template_s", [SLOWEST_S, None])
def test_the_library_stays_where_templates_are_slower_or_not_predicted(template_s: float | None) -> None:
    """As without max_autotune: a product, and one kernel after it."""
    step, _ = recorded(mlp, template_s, **TUNED)
    product, rest = step.operations
    plain, asked = recorded(mlp, template_s)
    assert (product.name, rest.kind) == ("mm", "triton") and step.mode == "max-autotune"
    assert [operation.name for operation in plain.operations] == [operation.name for operation in step.operations]
    assert plain.mode == "compiled" and not asked


def test_few_templates_are_predicted_and_like_products_once() -> None:
    """Others are ranked by their tiles alone, none of which is there twice."""
    _, asked = recorded(lambda x, w: F.linear(F.linear(x, w), w.t()) @ w.t(), None, **TUNED)
    products: dict[tuple[int, ...], list[Any]] = {}
    for capture in asked:
        shapes = tuple(size for tensor in capture.tensors.values() for size in (*tensor.shape, *tensor.strides))
        products.setdefault(shapes, []).append((capture.function.src, capture.options["num_warps"]))
    assert len(products) == 2
    assert all(len(tried) == len(set(tried)) == MOST_PREDICTED for tried in products.values())


def test_choices_that_nobody_can_price_are_told() -> None:
    """Graphs of operations, as torch has them for deep products."""
    with recording(H200, times=lambda captures: [None] * len(captures)) as session:
        x, w = torch.randn(64, 1 << 16, device="cuda").bfloat16(), torch.randn(1 << 16, 64, device="cuda").bfloat16()
        session.run(torch.compile(torch.matmul, **TUNED), (x, w))
        step = session.step()
    assert step.operations[0].name == "mm"
    (note,) = step.notes
    assert ", other choices that nobody can price: " in note


def test_a_setting_of_torch_is_honoured() -> None:
    """Where the code sets it itself; it stays as it was."""
    before = torch._inductor.config.max_autotune
    try:
        torch._inductor.config.max_autotune = True
        assert recorded(mlp, FASTEST_S)[0].mode == "max-autotune"
    finally:
        torch._inductor.config.max_autotune = before


def test_the_search_of_torch_goes_on_from_the_fastest_listed_configuration() -> None:
    """Where more warps are predicted to be faster it finds more than are listed; short kernels are left out."""

    def warps(slowest_s: float) -> list[int]:
        def times(captures: Sequence[RecordedLaunch]) -> list[float | None]:
            return [slowest_s / int(capture.options["num_warps"]) for capture in captures]

        with recording(H200, times=times) as session:
            x = torch.randn(1 << 20, device="cuda")
            session.run(torch.compile(torch.sin, options={"coordinate_descent_tuning": True}), (x,))
            (operation,) = session.step().operations
            return [int(session.captures[place].options["num_warps"]) for place in operation.calls]

    listed, searched = warps(LEAST_S), warps(1.0)
    assert searched[: len(listed)] == listed and max(searched) > max(listed)
    assert len(listed) < len(searched) <= len(listed) + MOST_TRIED


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_graphs_copy_what_they_are_given_but_no_parameters(mode: str) -> None:
    """The step is replayed as a graph, and says so."""
    with torch.device("meta"):
        model = torch.nn.Linear(256, 256).bfloat16()
    x = torch.empty(128, 256, dtype=torch.bfloat16, device="meta")
    step = record_live(torch.compile(model, mode=mode), (x,), device=H200).step
    copies = [operation for operation in step.operations if operation.name == "_foreach_copy_"]
    assert step.graphed and [[tensor.shape for tensor in copy.outputs] for copy in copies] == [[(128, 256)]]
    assert any("as a CUDA graph" in note for note in step.notes)
    assert (step.mode == "max-autotune") == (mode == "max-autotune")


def test_code_that_changes_what_it_is_given_has_no_graph() -> None:
    """A cache that is written in place is not copied, and the answer says why there is no graph."""

    def write(cache: torch.Tensor, place: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(0, place, new)
        return cache.sum(0)

    given = [torch.empty(*shape, device="meta") for shape in ((512, 256), (1, 256))]
    place = torch.zeros(1, device="meta", dtype=torch.int64)
    made = torch.compile(write, mode="max-autotune")
    step = record_live(made, (given[0], place, given[1]), device=H200).step
    assert not step.graphed and not [work for work in step.operations if work.name == "_foreach_copy_"]
    assert any("no CUDA graph of 1 of 1 graphs: inputs are changed in place" in note for note in step.notes)


def test_two_products_and_their_sum_have_a_price_in_the_library() -> None:
    """Inductor has an operation for both: they are weighed against its template."""
    with recording(H200, times=lambda captures: [None] * len(captures)) as session:
        pairs = [torch.randn(512, 512, device="cuda").bfloat16() for _ in range(4)]
        session.run(torch.compile(lambda a, b, c, d: a @ b + c @ d, **TUNED), pairs)
        step = session.step()
    kernels = [kernel for made in price_step(step, H200, {}) for kernel in made]
    assert [kernel.source for kernel in kernels if not kernel.name.startswith("Mem")] == ["matmul"] * 2
    assert "the library takes" in step.notes[0]


def test_what_a_trial_raises_ends_no_step() -> None:
    """A choice that fails is not taken."""

    def failing(*_: Any, **__: Any) -> None:
        raise RuntimeError

    from torch._inductor import autotune_process

    before = autotune_process.TritonBenchmarkRequest.make_run_fn
    with suppress(AttributeError):
        autotune_process.TritonBenchmarkRequest.make_run_fn = failing
        try:
            step, asked = recorded(mlp, FASTEST_S, **TUNED)
        finally:
            autotune_process.TritonBenchmarkRequest.make_run_fn = before
    assert step.operations[0].name == "mm" and not asked
