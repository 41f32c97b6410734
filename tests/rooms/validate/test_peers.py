"""Peers: who can be asked, who fell back, what is refused; no GPU, the answers are made up."""

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pytest
from support.made_up_measurements import a_timing
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.validate.experiments.peer_rows import measure_peers, ours, peers_dict, peers_text
from tilesight.validate.experiments.peers import PEERS, fallback, refusal, why_not
from tilesight.validate.measure.results_file import Row
from tilesight.validate.measurement import Lost, Measurement
from tilesight.validate.points.point import Point, runnable_config

PROBLEM = AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
DEVICE = {"name": "h200", "set": []}
TIMES_S = {"sdpa-flash": 1.8e-3, "sdpa-efficient": 4.1e-3, "sdpa-cudnn": 1.1e-3, "eager": 2.4e-2}


def measurement(key: str, median_s: float, **others: Any) -> Measurement:
    """A right measurement."""
    return Measurement(
        key=key, timing=a_timing(median_s, "warm"), launches=(), peak_memory_bytes=1 << 28, oracle_error=0.5, **others
    )


class MadeUpGpu:
    """Answers for the peers that it has, and refuses the others; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """One answer."""
        self.asked.append(job)
        peer = job["peer"]
        if peer == "eager" and job["problem"]["seqlen_q"] > 8192:
            return {"out_of_memory": True}
        if peer not in TIMES_S:
            return {"lost": f"{peer}: No available kernel. Aborting execution."}
        doubt = fallback(peer, "math") if peer == "sdpa-efficient" else None
        measured = measurement(job["key"], TIMES_S[peer], doubts=(doubt,) if doubt else ())
        return {"measurement": measured.to_dict(), "family": "math" if doubt else PEERS[peer]}


def a_point(problem: AttentionProblem = PROBLEM, schedule: str = "flash2", **options: Any) -> Point:
    """A warm point."""
    return Point(schedule=schedule, problem=problem, config=runnable_config(schedule, **options), l2="warm")


def test_every_peer_is_measured_once_a_problem() -> None:
    """Configurations of ours share the problem, and so the peers."""
    gpu = MadeUpGpu()
    points = [a_point(), a_point(block_n=128), a_point(schedule="naive")]
    rows = measure_peers(points, DEVICE, gpu.ask, peers=("sdpa-flash", "eager"))
    assert [row.peer for row in rows] == ["sdpa-flash", "eager"]
    assert [job["peer"] for job in gpu.asked] == ["sdpa-flash", "eager"]
    assert gpu.asked[0]["problem"] == PROBLEM.to_dict()


def test_cold_and_warm_are_two_cases() -> None:
    """A warm time of a peer is nothing to hold a cold one of ours against."""
    gpu = MadeUpGpu()
    measure_peers([a_point(), replace(a_point(), l2="cold")], DEVICE, gpu.ask, peers=("sdpa-flash",))
    assert [job["l2"] for job in gpu.asked] == ["warm", "cold"]


def test_a_peer_that_fell_back_is_named() -> None:
    """The row says what ran, and the text says what was asked for."""
    rows = measure_peers([a_point()], DEVICE, MadeUpGpu().ask, peers=("sdpa-efficient",))
    assert rows[0].family == "math"
    assert "sdpa-efficient fell back: math kernels ran" in peers_text(rows)


def test_a_peer_that_refuses_is_lost_with_its_reason() -> None:
    """A refusal is an answer, not a failure of the run."""
    rows = measure_peers([a_point()], DEVICE, MadeUpGpu().ask, peers=("sdpa-math", "sdpa-flash"))
    assert isinstance(rows[0].outcome, Lost)
    assert "No available kernel" in rows[0].outcome.reason
    assert rows[1].time_s == TIMES_S["sdpa-flash"]


def test_a_peer_that_runs_out_of_memory_is_lost() -> None:
    """As eager attention does on long sequences."""
    long = replace(PROBLEM, seqlen_q=32768, seqlen_k=32768)
    rows = measure_peers([a_point(long)], DEVICE, MadeUpGpu().ask, peers=("eager",))
    assert rows[0].outcome == Lost(key=rows[0].outcome.key, reason="out of memory")


def test_a_peer_that_cannot_be_asked_is_not_asked() -> None:
    """SDPA computes another mask where M != N, so its time would be of another problem."""
    gpu = MadeUpGpu()
    short = replace(PROBLEM, seqlen_q=128, causal=True)
    rows = measure_peers([a_point(short)], DEVICE, gpu.ask, peers=("sdpa-flash",))
    assert gpu.asked == []
    assert isinstance(rows[0].outcome, Lost)


def test_an_unknown_peer_is_refused() -> None:
    """The text names those that there are."""
    with pytest.raises(ValueError, match=r"peer = 'xformers': must be one of sdpa-flash, "):
        why_not("xformers", PROBLEM)


@pytest.mark.parametrize(
    ("peer", "changes", "expected"),
    [
        ("sdpa-flash", {}, None),
        ("eager", {"causal": True, "seqlen_q": 128}, None),
        ("sdpa-cudnn", {"causal": True, "seqlen_q": 128}, "SDPA aligns the causal mask to the first key"),
        ("sdpa-cudnn", {"dtype": "fp8"}, "sdpa-cudnn does not take fp8"),
    ],
)
def test_what_a_peer_cannot_do_is_known_beforehand(peer: str, changes: dict[str, Any], expected: str | None) -> None:
    """And what it can do is not refused."""
    reason = why_not(peer, replace(PROBLEM, **changes))
    assert reason is None if expected is None else expected in str(reason)


def test_the_reason_of_a_refusal_is_found_among_torchs_warnings() -> None:
    """Torch warns with a heading, the reason, and that the other backends are turned off."""
    messages = [
        "Memory efficient kernel not used because: (Triggered internally at sdp_utils.cpp:898.)",
        "Memory Efficient attention has been runtime disabled. (Triggered internally at sdp_utils_cpp.h:551.)",
        "Flash attention kernel not used because: (Triggered internally at sdp_utils.cpp:900.)",
        "Expected query, key and value to all be of dtype: {Half, BFloat16}. (Triggered internally at sdp_utils.h:9.)",
    ]
    assert refusal(messages) == "Expected query, key and value to all be of dtype: {Half, BFloat16}."
    assert refusal(messages[:3]) is None


@pytest.mark.skipif(find_spec("flash_attn") is not None, reason="flash-attn is installed")
def test_a_package_that_is_not_installed_is_named() -> None:
    """flash-attn is a peer only where it is installed."""
    assert why_not("flash-attn", PROBLEM) == "flash-attn is not installed"


def test_what_was_asked_for_is_no_fallback() -> None:
    """`sdpa` alone asks for nothing in particular; the others ask for one family."""
    assert fallback("sdpa-flash", "flash") is None
    assert fallback("sdpa", "cudnn") is None
    assert fallback("sdpa-cudnn", "flash") == "sdpa-cudnn fell back: flash kernels ran"


def test_ours_is_the_fastest_right_one() -> None:
    """A wrong result does not win, however fast it is."""
    rows = [
        Row(point=a_point(), resources=(), outcome=measurement("a", 1.3e-3)),
        Row(point=a_point(block_n=128), resources=(), outcome=measurement("b", 1.2e-3)),
        Row(
            point=a_point(schedule="naive"),
            resources=(),
            outcome=replace(measurement("c", 1e-4), oracle_error=7.0),
        ),
        Row(point=a_point(num_stages=3), resources=(), outcome=Lost(key="d", reason="hang")),
    ]
    (best,) = ours(rows)
    assert (best.time_s, best.family) == (1.2e-3, "flash2")


def test_the_table_is_sorted_by_time_and_holds_ours() -> None:
    """The fastest first, each with its factor to the fastest."""
    fastest = ours([Row(point=a_point(), resources=(), outcome=measurement("a", 1.3e-3))])
    rows = measure_peers([a_point()], DEVICE, MadeUpGpu().ask, peers=("eager", "sdpa-flash", "sdpa-cudnn"))
    lines = peers_text([*fastest, *rows]).splitlines()
    names = [line.split()[0] for line in lines if line.split() and line.split()[0] in (*PEERS, "tilesight")]
    assert names == ["sdpa-cudnn", "tilesight", "sdpa-flash", "eager"]
    assert any("eager" in line and "21.8x" in line for line in lines)


def test_the_json_holds_every_row() -> None:
    """Lost ones too, with their reasons."""
    rows = measure_peers([a_point()], DEVICE, MadeUpGpu().ask, peers=("sdpa-math", "sdpa-flash"))
    document = peers_dict(rows)
    assert [row["peer"] for row in document["rows"]] == ["sdpa-math", "sdpa-flash"]
    assert "lost" in document["rows"][0]["outcome"]
