"""A step's profile: nothing is lost between rows, groups, JSON and text, and what is missing is said first."""

import json
import re
from dataclasses import replace

import pytest
from support.steps import H200, kernel, layered, matmul, profiled, tensor, torch_operation
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.cost_model import KernelCostModel
from tilesight.simulator.operations.groups import KEYS, NO_MODULE
from tilesight.simulator.operations.operation import RecordedStep
from tilesight.simulator.operations.price import price
from tilesight.simulator.operations.profile import Profile, profile_of
from tilesight.simulator.operations.workspaces import workspace_bytes
from tilesight.simulator.prediction.timing import EVENTS_S


@pytest.fixture(scope="module")
def layers() -> Profile:
    """Three layers that are alike, one that is not, and a kernel without a price."""
    return layered()


def test_every_grouping_adds_up_to_the_total(layers: Profile) -> None:
    """Time, bytes, shares and kernels, whatever the rows are grouped by; what has no price adds no time."""
    assert layers.time_s == pytest.approx(3 * 120e-6 + 2 * 5e-6)
    for key in KEYS:
        groups = layers.by(key)
        assert sum(group.time_s for group in groups) == pytest.approx(layers.time_s)
        assert sum(group.share for group in groups) == pytest.approx(1)
        assert sum(group.kernels for group in groups) == len(layers.rows) == 9
        assert sum(group.refused for group in groups) == len(layers.refused) == 1
        assert sum(group.hbm_bytes for group in groups) == 9 * 3000
        assert [group.time_s for group in groups] == sorted((group.time_s for group in groups), reverse=True)


def test_layers_that_do_the_same_are_joined(layers: Profile) -> None:
    """A star stands for their numbers; the layer that does something else keeps its own."""
    modules = {group.name: (group.modules, group.kernels) for group in layers.by("module")}
    assert modules == {"layers.*.up": (3, 3), "layers.*": (3, 3), "layers.3": (1, 2), NO_MODULE: (1, 1)}


def test_parts_of_a_sequence_are_no_layers() -> None:
    """`mlp.0` and `mlp.2` of every layer do the same as each other only where all that is below them is."""
    operations = [
        operation
        for layer in range(2)
        for operation in (
            matmul(64, 64, 64, module=f"layers.{layer}.mlp.0"),
            torch_operation("gelu", module=f"layers.{layer}.mlp.1"),
            matmul(64, 64, 64, module=f"layers.{layer}.mlp.2"),
        )
    ]
    names = {group.name for group in profiled(operations, [[kernel(1e-6)]] * 6).by("module")}
    assert names == {"layers.*.mlp.*", "layers.*.mlp.1"}


def test_layers_that_a_compiler_has_joined_at_their_ends_are_layers() -> None:
    """The first norm is by itself, the others are in the kernel before; a layer of other modules keeps its number."""
    below = [("norm", "up", "down")] + [("up", "down")] * 3 + [("experts", "router")]
    modules = [f"layers.{layer}.{name}" for layer, names in enumerate(below) for name in names]
    operations = [torch_operation(module.rpartition(".")[2], module=module) for module in modules]
    joined = {group.name: group.modules for group in profiled(operations, [[kernel(1e-6)]] * len(modules)).by("module")}
    assert joined == {
        **{"layers.*.up": 4, "layers.*.down": 4, "layers.*.norm": 1},
        **{"layers.4.experts": 1, "layers.4.router": 1},
    }


def test_an_unknown_grouping_is_one_line(layers: Profile) -> None:
    """With what there is."""
    with pytest.raises(ValueError, match=r"^by = 'layer': must be one of module, op, kernel, source, phase$"):
        layers.by("layer")  # type: ignore[arg-type]


def test_the_text_says_first_what_is_missing(layers: Profile) -> None:
    """Then time and sources, idle time and memory; like kernels of like layers share a line."""
    lines = str(layers).splitlines()
    assert lines[:4] == [
        "Incomplete: 1 of 9 kernels without a price, missing from the time: 1 x sort (sort has no price)",
        "model.py:step on h200, eager: 370 us in 8 kernels; of the time 81 % matmul, 19 % bytes",
        "GPU idle 16.9 us of 387 us in a stream, 5.88 us of 376 us in a CUDA graph",
        "Peak memory 1.03 GiB (1.00 MiB parameters) of 140 GiB: fits",
    ]
    (row,) = [line.split() for line in lines if line.startswith("layers.*.up")]
    assert row == [
        "layers.*.up",
        "mm",
        "gemm",
        "matmul",
        "x",
        "3",
        "300",
        "us",
        "81",
        "%",
        "9.00",
        "kB",
        "tensor",
        "cores",
    ]
    (last,) = [line for line in lines if line.startswith(NO_MODULE)]
    assert "no price" in last
    assert "Bound by 81 % tensor cores, 16 % HBM, 2.7 % latency" in lines
    assert lines[-1] == "Note     a note of the recording"


def test_a_table_ends_where_it_is_asked_to(layers: Profile) -> None:
    """With what the other lines take together."""
    text = layers.text(by="op", top=1)
    assert "... and 3 other lines: 19 % of the time; --top shows more" in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith(("mm", "gelu"))] == ["mm"]


def test_json_has_every_kernel_with_its_keys(layers: Profile) -> None:
    """What has no price has a least time in place of one."""
    answer = json.loads(json.dumps(layers.to_dict(), allow_nan=False))
    assert list(answer) == [
        *(
            "schema",
            "subject",
            "device",
            "mode",
            "timing",
            "complete",
            "ended",
            "kernels",
            "refused",
            "time_s",
            "queue",
            "queues",
        ),
        *("idle_s", "step_s", "bound_by", "peak_bytes", "parameter_bytes", "hbm_bytes", "fits", "sources", "rows"),
        *("hints", "notes"),
    ]
    assert list(answer["rows"][0]) == [
        *("number", "module", "operation", "parts", "where", "phase", "kernel", "source", "stream", "start_s"),
        *(
            "end_s",
            "time_s",
            "at_least_s",
            "bound_by",
            "hbm_read_bytes",
            "hbm_write_bytes",
            "l2_bytes",
            "reason",
            "note",
        ),
        "one_shape",
    ]
    assert answer["complete"] is False and answer["queue"] == "stream"
    assert (answer["rows"][-1]["time_s"], answer["rows"][-1]["at_least_s"]) == (None, 7e-6)
    assert sum(row["time_s"] or 0 for row in answer["rows"]) == answer["time_s"]
    assert set(answer["queues"]) == {"stream", "graph"}
    assert [list(row) for row in layers.flat_rows()] == [["device", "mode", *answer["rows"][0]]] * 9


def test_a_step_that_ended_early_says_so_first() -> None:
    """Its kernels keep their times; the answer is not complete."""
    profile = replace(profiled([matmul(64, 64, 64)], [[kernel(1e-6)]]), ended="index at m.py:7: why")
    assert not profile.complete and profile.time_s == 1e-6
    assert profile.text().startswith(
        "Incomplete: the step ended in an error, and what follows is missing: index at m.py:7"
    )


def test_a_step_that_does_not_fit_says_by_how_much() -> None:
    """It is priced all the same."""
    profile = profiled([matmul(64, 64, 64)], [[kernel(1e-6)]], peak_bytes=H200.hbm_bytes + (3 << 30))
    assert not profile.fits and profile.complete
    assert "does not fit: 3.03 GiB too much" in " ".join(str(profile).split())


def test_rows_begin_where_the_queue_has_them() -> None:
    """In a CUDA graph at once, in a stream once the host has come to them."""
    operations = [torch_operation("add", [tensor(8)], [tensor(8)]) for _ in range(3)]
    priced = [[kernel(1e-6)]] * 3
    stream, graph = (profiled(operations, priced, queue=queue) for queue in ("stream", "graph"))
    assert [row.start_s for row in stream.rows] == pytest.approx([11e-6, 22e-6, 33e-6])
    gap_s = H200.launch_graph_s
    assert [row.start_s for row in graph.rows] == pytest.approx([0, 1e-6 + gap_s, 2 * (1e-6 + gap_s)])
    assert stream.idle_s == pytest.approx(stream.step_s - 3e-6) and graph.idle_s == pytest.approx(2 * gap_s)
    assert stream.stream == graph.stream and "(bound by launches)" in str(stream)


def test_each_thread_that_multiplies_keeps_a_workspace() -> None:
    """An H100 measured 32 MiB beside tensors, with a bias 33, with a backward pass 65; a step without products 0."""
    forward = matmul(64, 64, 64)
    added, backward = replace(forward, name="addmm"), replace(forward, phase="backward")
    h100 = load_device("h100")
    sizes = [workspace_bytes(step, h100) for step in ((), (forward,), (added,), (added, backward))]
    assert [size >> 20 for size in sizes] == [0, 32, 33, 65]
    assert workspace_bytes((forward,), load_device("a100")) == 4096 * 1024 * 2 + 16 * 1024 * 8


def test_do_bench_shows_events_around_a_step_that_the_host_has_enqueued_before() -> None:
    """Three kernels of a microsecond: zeroing 256 MiB outlasts three calls, so that only gaps are between them."""
    works = [torch_operation("relu", [tensor(64)], [tensor(64)]) for _ in range(3)]
    times = [[kernel(1e-6)] for _ in works]
    step = RecordedStep(operations=tuple(works), mode="eager", peak_bytes=0)
    single, bench = (profile_of(step, times, H200, "h200", subject="s", timing=way) for way in ("single", "do_bench"))
    assert single.step_s >= 3 * 11e-6
    assert bench.step_s == pytest.approx(3e-6 + 2 * H200.launch_graph_s + EVENTS_S)
    assert "As do_bench shows it" in bench.text() and "do_bench" not in single.text()


def test_attention_is_told_in_each_back_end() -> None:
    """24 heads of 128 over 16,384 tokens on an H200: 4.9 ms by cuDNN, 9.3 by flash (a public report)."""
    heads = [tensor(1, 24, 16384, 128) for _ in range(3)]
    work = torch_operation("_scaled_dot_product_cudnn_attention", heads, [tensor(1, 24, 16384, 128)])
    step = RecordedStep(operations=(work,), mode="eager", peak_bytes=0)
    (note,) = profile_of(step, [price(work, KernelCostModel(H200))], H200, "h200", subject="s").notes
    assert note.startswith("attention is cudnn's, as torch 2.11 to 2.13 with cuDNN 9.15 or newer do")
    times = dict(re.findall(r"(cudnn|flash|efficient) ([\d.]+) ms", note))
    assert float(times["cudnn"]) == pytest.approx(4.899, rel=0.05)
    assert float(times["flash"]) == pytest.approx(9.288, rel=0.12)


def test_prices_that_were_read_off_another_gpu_say_so() -> None:
    """On every GPU but those that were measured, where there is any such price."""
    work = torch_operation("relu", [tensor(64)], [tensor(64)])
    step = RecordedStep(operations=(work,), mode="eager", peak_bytes=0)
    for name, said in (("h100", 0), ("h200", 0), ("b200", 1), ("a100", 1)):
        device = load_device(name)
        made = profile_of(step, [price(work, KernelCostModel(device))], device, name, subject="s")
        assert sum("were read off an H100 and an H200" in note for note in made.notes) == said
    simulated = [[kernel(1e-6, source="simulated")]]
    assert not profile_of(step, simulated, load_device("b200"), "b200", subject="s").notes
