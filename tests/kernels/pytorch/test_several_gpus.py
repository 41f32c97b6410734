"""Steps of several GPUs, recorded without any: what they send, on which streams, and what waits for what."""

from collections import Counter

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

from pytorch import several
from pytorch.several import LAYERS, TOKENS, WIDTH
from tilesight.kernels.pytorch.file import record_step
from tilesight.simulator.operations.operation import Operation, RecordedStep
from tilesight.simulator.operations.price import price_step
from tilesight.simulator.operations.profile import Profile, profile_of

H200 = load_device("h200")
BLOCK = 16 * WIDTH**2 + 2 * WIDTH
"""Parameters of a block; of these there are four."""


def recorded(name: str, gpus: int = 2, rank: int = 0) -> RecordedStep:
    """A step of the file, in a process of its own."""
    return record_step(f"{several.__file__}:{name}", H200, "h200", options={"gpus": gpus, "rank": rank}).step


def timed(step: RecordedStep) -> Profile:
    """The step on an H200; Triton kernels take nothing."""
    triton = {number: "" for number, work in enumerate(step.operations) if work.kind == "triton"}
    return profile_of(step, price_step(step, H200, triton), H200, "h200", subject="s")


def of(step: RecordedStep, name: str) -> list[Operation]:
    """The collectives of a name."""
    return [work for work in step.operations if "c10d" in work.name and name in work.name]


def bytes_of(works: list[Operation], side: str) -> int:
    """Of their inputs or outputs."""
    return sum(operand.bytes for work in works for operand in getattr(work, side))


def test_ddp_reduces_every_gradient_once_in_buckets_beside_the_backward_pass() -> None:
    """Of up to 25 MiB and a parameter; products go on meanwhile; gradients come back after their own bucket alone."""
    step = recorded("ddp")
    reduced = of(step, "allreduce")
    assert bytes_of(reduced, "outputs") == 2 * 4 * BLOCK
    assert all(work.outputs[0].bytes < (25 << 20) + 2 * 4 * WIDTH**2 for work in reduced) and len(reduced) > 4
    assert {work.stream for work in reduced} == {"NCCL, default_pg"} and not step.notes
    profile = timed(step)
    assert profile.complete and profile.queued.exposed_s < 0.25 * profile.queued.communication_s
    assert profile.step_s < profile.time_s + profile.queued.idle_s


def test_fsdp2_gathers_ahead_and_holds_two_blocks_at_most() -> None:
    """Each block forward and backward, while the one before computes; a half of the parameters stays here."""
    step = recorded("fsdp")
    assert bytes_of(of(step, "allgather"), "outputs") == 2 * 2 * 4 * BLOCK
    assert bytes_of(of(step, "reduce_scatter"), "inputs") in (2 * 4 * BLOCK, 3 * 2 * 4 * BLOCK // 2)
    assert step.parameter_bytes == 4 * BLOCK
    assert len({work.stream for work in step.operations}) == 4
    profile = timed(step)
    assert profile.complete and profile.queued.exposed_s < 0.5 * profile.queued.communication_s
    alone = recorded("ddp").peak_bytes
    assert step.peak_bytes < alone - 2 * BLOCK


def test_shards_and_replicas_train_with_an_optimizer() -> None:
    """Scattered over four GPUs and reduced over two; the gradients' norm is one number for each group."""
    step = recorded("hybrid", 8)
    groups = {(work.name, work.arguments.get("group_size")) for work in of(step, "")}
    assert ("c10d::_reduce_scatter_base_", 4) in groups and ("c10d::allreduce_", 2) in groups
    assert step.ended == "" and any(work.phase == "optimizer" for work in step.operations)


def test_tensor_parallel_layers_compute_a_part_each() -> None:
    """Two gathers and two scatters a layer, as sequence parallelism has them; a quarter of the products."""
    step = recorded("tensor_parallel", 4)
    counts = Counter(work.name.partition("::")[2] for work in of(step, ""))
    assert counts["all_gather_into_tensor"] >= 2 * LAYERS and counts["reduce_scatter_tensor"] >= 2 * LAYERS
    products = [work for work in step.operations if work.name == "mm"]
    assert min(operand.shape[-1] for work in products for operand in work.outputs) == WIDTH // 4
    profile = timed(step)
    assert profile.complete and profile.queued.exposed_s == pytest.approx(profile.queued.communication_s, rel=0.05)


def test_experts_send_their_tokens_there_and_back() -> None:
    """All of them twice, by either of torch's interfaces."""
    step = recorded("experts")
    assert [work.inputs[0].shape[0] for work in of(step, "to")] == [2 * TOKENS] * 2
    assert timed(step).complete


def test_stages_of_a_pipeline_differ() -> None:
    """The first sends, the last receives, one between them does both."""
    counts = [Counter(work.name for work in of(recorded("pipeline", 3, rank), "")) for rank in range(3)]
    assert counts == [{"c10d::send": 4}, {"c10d::send": 4, "c10d::recv_": 4}, {"c10d::recv_": 4}]


def test_a_ring_sends_and_receives_at_a_time_and_waits_for_attention() -> None:
    """Both ways at once are slower than one; after the first turn they begin as attention ends, as on two H200s."""
    profile = timed(recorded("ring", 4))
    sent, received = ([row for row in profile.rows if way in row.kernel.name] for way in ("send", "recv"))
    ends = [row.end_s for row in profile.rows if row.kernel.source == "attention"]
    assert len(sent) == len(received) == 3
    for turn, (out, back) in enumerate(zip(sent, received, strict=True)):
        assert out.start_s == pytest.approx(back.start_s, abs=20e-6)
        assert turn == 0 or min(abs(out.start_s - end_s) for end_s in ends) < 1e-6
    alone_s = sum(row.time_s for row in sent)
    assert 1.2 * alone_s < profile.queued.communication_s < 1.5 * alone_s


def test_compiled_code_waits_where_its_compiler_says() -> None:
    """Functional collectives between kernels of torch's compiler."""
    step = recorded("compiled", 4)
    assert step.mode == "compiled" and len(of(step, "all_")) == 2
    assert all(work.stream.startswith("NCCL") for work in of(step, "all_"))


def test_streams_and_events_of_the_code_are_followed() -> None:
    """A reduction on another stream is beside the product; what follows waits for both."""
    profile = timed(recorded("beside"))
    reduction, product, after = (
        next(row for row in profile.rows if name in row.operation.name) for name in ("allreduce", "mm", "add_")
    )
    assert reduction.operation.stream == "stream 1" and product.operation.stream == ""
    assert product.start_s < reduction.end_s and after.start_s >= max(product.end_s, reduction.end_s)
