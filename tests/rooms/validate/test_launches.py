"""`validate --launches`: predicted splits of real schedules, and profiles that are made up."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Resources
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.refusal import Refusal
from tilesight.validate.experiments.launches import (
    SUBJECTS,
    WAYS,
    LaunchReport,
    LaunchRow,
    eager_parts,
    predict_launches,
    profile_launches,
    profiled,
)
from tilesight.validate.report.launches import launches_text

H200 = load_device("h200")
PROBLEM = AttentionProblem(batch=1, heads=4, seqlen_q=512, seqlen_k=512, head_dim=64)
DEVICE = {"name": "h200", "set": []}
PASSES = 2


@pytest.fixture(scope="module")
def report() -> LaunchReport:
    """Predicted only."""
    return predict_launches(PROBLEM, H200)


def row(report: LaunchReport, subject: str, way: str = "stream") -> LaunchRow:
    """One row."""
    (match,) = (match for match in report.rows if (match.subject, match.way) == (subject, way))
    return match


def kernels(names: list[str], gap_us: float = 2.0) -> list[dict[str, Any]]:
    """Two passes of kernels, of 10, 20, 30, ... microseconds."""
    runs, start_us = [], 0.0
    for _ in range(PASSES):
        for place, name in enumerate(names):
            time_us = 10.0 * (place + 1)
            resources = {"registers_per_thread": 64, "smem_bytes_per_cta": 0, "stream": 7}
            extents = {"grid": [1, 1, 1], "block": [128, 1, 1]}
            runs.append({"name": name, "start_s": start_us * 1e-6, "time_s": time_us * 1e-6, **resources, **extents})
            start_us += time_us + gap_us
    return runs


NAMES = {
    "eager": ["nvjet_hsh_TNT", "vectorized_elementwise_kernel", "softmax_warp_forward", "nvjet_hsh_NNT"],
    "naive": ["scores_kernel", "softmax_kernel", "output_kernel"],
    "flash2": ["flash2_kernel"],
    "sdpa": ["void pytorch_flash::flash_fwd_kernel<x>(y)"],
}


class MadeUpGpu:
    """Profiles of what it knows; refuses the rest."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """One answer."""
        self.asked.append(job)
        subject = job.get("peer") or job["point"]["schedule"]
        if subject not in NAMES:
            return {"out_of_memory": True}
        return {"passes": PASSES, "kernels": kernels(NAMES[subject], 2.0 if job["way"] == "stream" else 1.0)}


@pytest.mark.parametrize(("subject", "count"), [("naive", 3), ("unfused", 6), ("flash2", 1), ("sdpa", 1)])
def test_our_schedules_launch_as_many_kernels_as_they_have(report: LaunchReport, subject: str, count: int) -> None:
    """In a stream and in a graph alike."""
    for way in WAYS:
        assert row(report, subject, way).predicted.count == count


@pytest.mark.parametrize(
    ("changes", "count"), [({}, 4), ({"causal": True}, 5), ({"dropout": 0.1}, 5), ({"causal": True, "dropout": 0.1}, 6)]
)
def test_eager_attention_leaves_out_what_it_does_not_need(changes: dict[str, Any], count: int) -> None:
    """Product, scale, softmax and product always; a mask and dropout where the problem has them."""
    predicted = predict_launches(replace(PROBLEM, seqlen_q=64, seqlen_k=64, **changes), H200)
    assert row(predicted, "eager").predicted.count == count


@pytest.mark.parametrize(
    ("name", "seqlen", "parts"), [("scale", 4095, 1), ("scale", 4096, 2), ("mask", 5900, 4), ("softmax", 8192, 1)]
)
def test_eager_code_splits_elementwise_operations_on_large_tensors(name: str, seqlen: int, parts: int) -> None:
    """As profiled: 2^31 scores are scaled by two kernels, since one addresses an element less."""
    assert eager_parts(name, replace(PROBLEM, batch=4, heads=32, seqlen_q=seqlen, seqlen_k=seqlen)) == parts


def test_a_pipeline_waits_longer_between_kernels_in_a_stream_than_in_a_graph() -> None:
    """A tiny kernel ends before the next one can be launched; in a graph its ramp is longer than the interval."""
    tiny = predict_launches(replace(PROBLEM, batch=1, heads=1, kv_heads=1, seqlen_q=64, seqlen_k=64), H200)
    stream, graph = (row(tiny, "naive", way).predicted for way in WAYS)
    assert stream.gap_s > graph.gap_s == 0.0
    assert [name for name, _ in stream.kernels] == [name for name, _ in graph.kernels]
    assert [time_s for _, time_s in stream.kernels] == pytest.approx([time_s for _, time_s in graph.kernels])


def test_only_fused_kernels_have_a_share(report: LaunchReport) -> None:
    """All of the tiled kernel's time, and nothing of a pipeline's."""
    assert row(report, "flash2").predicted.fused_fraction == 1.0
    assert row(report, "naive").predicted.fused_fraction == 0.0


def test_every_subject_is_profiled_in_both_ways(report: LaunchReport) -> None:
    """Peers by their name, our schedules by theirs."""
    gpu = MadeUpGpu()
    profile_launches(report, DEVICE, gpu.ask)
    asked = [(job.get("peer") or job["point"]["schedule"], job["way"]) for job in gpu.asked]
    assert asked == [(subject, way) for way in WAYS for subject in SUBJECTS]
    assert {job["peer"] for job in gpu.asked if "peer" in job} == {"eager", "sdpa"}


def test_a_profile_stands_beside_its_prediction(report: LaunchReport) -> None:
    """Count, dominating kernel and its share, gaps."""
    compared = row(profile_launches(report, DEVICE, MadeUpGpu().ask), "naive")
    assert compared.predicted == row(report, "naive").predicted
    assert compared.profiled is not None
    whole = compared.profiled
    assert (whole.count, whole.dominating[0]) == (3, "output_kernel")
    assert whole.dominating[1] == pytest.approx(0.5)
    assert whole.gap_s == pytest.approx(4e-6)


@pytest.mark.parametrize(("subject", "share"), [("flash2", 1.0), ("sdpa", 1.0), ("naive", 0.0), ("eager", 0.0)])
def test_a_fused_kernel_is_recognised_by_its_name(report: LaunchReport, subject: str, share: float) -> None:
    """Ours, and those behind SDPA; a softmax kernel is no fused attention."""
    compared = row(profile_launches(report, DEVICE, MadeUpGpu().ask), subject)
    assert compared.profiled is not None
    assert compared.profiled.fused_fraction == share


def test_what_cannot_be_profiled_keeps_its_prediction_and_says_why(report: LaunchReport) -> None:
    """A pipeline that runs out of memory, kernels that differ from pass to pass, a process that died."""
    predicted = row(report, "unfused")
    assert profiled(predicted, {"out_of_memory": True}).reason == "out of memory"
    assert profiled(predicted, {"lost": "hang: no answer in 60 s"}).reason == "hang: no answer in 60 s"
    uneven = {"passes": 2, "kernels": kernels(["a", "b"])[:3]}
    assert profiled(predicted, uneven).reason == "3 kernels are not 2 equal passes"
    assert profiled(predicted, uneven).profiled is None


def test_the_text_names_what_dominates(report: LaunchReport) -> None:
    """Predicted and profiled, and who could not be profiled."""
    text = launches_text(profile_launches(report, DEVICE, MadeUpGpu().ask), width=200)
    assert "output_kernel 50 %" in text
    assert "unfused: not profiled: out of memory" in text


def test_the_text_works_without_a_gpu(report: LaunchReport) -> None:
    """Predicted alone, with dashes where a profile would be."""
    lines = [line.split() for line in launches_text(report, width=200).splitlines()]
    assert any(line[:3] == ["naive", "3", "-"] for line in lines)


def test_the_json_holds_both_sides(report: LaunchReport) -> None:
    """And null where there is no profile."""
    document = profile_launches(report, DEVICE, MadeUpGpu().ask).to_dict()
    rows = {(entry["subject"], entry["way"]): entry for entry in document["rows"]}
    assert rows["naive", "graph"]["profiled"]["gap_s"] == pytest.approx(2e-6)
    assert rows["unfused", "graph"]["profiled"] is None
    assert rows["eager", "stream"]["predicted"]["count"] == 4


def test_compiled_resources_reach_the_prediction() -> None:
    """Shared memory that lets one CTA run at a time makes the kernel slower."""
    slow = Resources(registers_per_thread=64, smem_bytes_per_cta=200_000, origin="compiled")
    small = replace(PROBLEM, heads=64)
    usual, other = (
        row(predict_launches(small, H200, compiler=compiler), "flash2").predicted.busy_s
        for compiler in (None, lambda pairs: [slow] * len(pairs))
    )
    assert other > usual


def test_a_schedule_that_does_not_compile_is_refused() -> None:
    """With the compiler's reason."""
    with pytest.raises(ValueError, match="schedule unfused: ptxas died"):
        predict_launches(PROBLEM, H200, compiler=lambda pairs: [Refusal("does not fit", "ptxas died")] * len(pairs))
