"""The instruments on a GPU: times, clock, witnesses, counters and peers, each against something known."""

import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import pytest
from tilesight.kernels.launch.availability import missing_gpu
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.validate.counters.ncu import doubt, find_ncu
from tilesight.validate.counters.ncu_output import NcuFailed
from tilesight.validate.measure.doubts import Facts, work_doubts
from tilesight.validate.points.point import Point, runnable_config
from tilesight.validate.timing.timing import time_run

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(missing_gpu() is not None, reason=str(missing_gpu()))]
if missing_gpu() is None:
    import torch
    from tilesight.kernels.launch.launch import device_of
    from tilesight.validate.experiments.peers import PEERS, runner
    from tilesight.validate.measure.output_checks import is_stale, poison, untouched_fraction, watch_streams
    from tilesight.validate.measure.process import Unavailable, track_and_tare
    from tilesight.validate.measure.run_point import job_of
    from tilesight.validate.measure.session import GpuSession
    from tilesight.validate.timing.kernel_runs import family_of, kernels_in
    from tilesight.validate.timing.profiler import captured, trace_of

    DEVICE = device_of(torch.empty(0, device="cuda"))
if TYPE_CHECKING:
    import torch

MARGIN = 0.05


@cache
def copied(size_bytes: int) -> Callable[[], object]:
    """A copy by a kernel."""
    source = torch.ones(size_bytes // 4, dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    return lambda: torch.neg(source, out=target)


def test_the_tare_is_some_microseconds() -> None:
    """A pair of events costs something, and less than the launches that it is taken off."""
    assert 0.0 <= track_and_tare()[1] < 2e-5


def test_a_large_copy_runs_at_hbm_bandwidth() -> None:
    """Two gigabytes read and written: no faster than the datasheet, and no slower than half of it."""
    track, tare = track_and_tare()
    size_bytes = 1 << 31
    timing = time_run(track, copied(size_bytes), l2="cold", tare=tare)
    rate = 2 * size_bytes / timing.median_s
    assert 0.5 < rate / DEVICE.hbm_peak_bytes_per_s < 1 + MARGIN
    assert timing.noise != "unstable"


def test_the_clock_is_one_that_the_gpu_has() -> None:
    """Under load it is no longer the idle clock, and at most the boost clock."""
    track, tare = track_and_tare()
    timing = time_run(track, copied(1 << 30), l2="warm", tare=tare)
    assert 0.5 * DEVICE.tensor_clock_hz < timing.clock_hz < (1 + MARGIN) * DEVICE.boost_clock_hz


def test_a_flushed_l2_is_cold() -> None:
    """A copy that fits L2 takes longer after a flush than after itself."""
    track, tare = track_and_tare()
    run = copied(1 << 23)
    cold, warm = (time_run(track, run, l2=l2, tare=tare) for l2 in ("cold", "warm"))  # type: ignore[arg-type]
    assert cold.low_s > warm.high_s


def test_a_slow_host_does_not_lengthen_a_sample() -> None:
    """The gate holds the GPU back until the host has enqueued everything."""
    track, tare = track_and_tare()
    run = copied(1 << 26)

    def slowly() -> None:
        time.sleep(2e-3)
        run()

    quick, slow = (time_run(track, work, l2="cold", tare=tare) for work in (run, slowly))
    assert slow.median_s == pytest.approx(quick.median_s, rel=0.1)


def test_work_on_another_stream_is_seen() -> None:
    """The GPU is still busy when the timed stream has ended."""
    side = torch.cuda.Stream()
    run = copied(1 << 30)

    def elsewhere() -> None:
        with torch.cuda.stream(side):
            run()

    seen = []
    for work in (run, elsewhere):
        waited_s, lingered_s = watch_streams(work)
        facts = Facts(untouched_fraction=0, stale=False, waited_s=waited_s, lingered_s=lingered_s, oracle_error=0)
        seen.append(any("another stream" in text for text in work_doubts(facts)))
    assert seen == [False, True]


def test_outputs_that_nobody_wrote_are_seen() -> None:
    """A kernel that writes half of its output leaves half of the poison."""
    source = torch.randn(1 << 20, device="cuda", dtype=torch.float16)
    output = torch.empty_like(source)
    poison([output])
    assert untouched_fraction([output]) == 1.0
    torch.neg(source[: 1 << 19], out=output[: 1 << 19])
    assert untouched_fraction([output]) == 0.5


def test_outputs_that_do_not_follow_their_inputs_are_seen() -> None:
    """A result that is remembered stays when the input changes."""
    source = torch.randn(1 << 20, device="cuda")
    output = torch.empty_like(source)
    remembered = torch.exp(source)
    runs = {"honest": lambda: torch.exp(source, out=output), "cheat": lambda: output.copy_(remembered)}
    stale_by_name = {}
    for name, run in runs.items():
        run()
        stale_by_name[name] = is_stale(run, [output], source)
    assert stale_by_name == {"honest": False, "cheat": True}


def test_counters_count_a_known_copy_right() -> None:
    """Within two percent, where ncu is installed and allowed to count."""
    try:
        ncu = find_ncu()
    except NcuFailed as error:
        pytest.skip(str(error))
    text = doubt(ncu, DEVICE.l2_bytes)
    if text and "not trusted" not in text:
        pytest.skip(text)
    assert text is None


PROBLEM = AttentionProblem(batch=2, heads=8, seqlen_q=1024, seqlen_k=1024, head_dim=64)


def inputs() -> list["torch.Tensor"]:
    """Q, K and V."""
    shape = (PROBLEM.batch, PROBLEM.heads, PROBLEM.seqlen_q, PROBLEM.head_dim)
    return [torch.randn(shape, dtype=torch.float16, device="cuda") for _ in range(3)]


@pytest.mark.parametrize("peer", ["sdpa-flash", "sdpa-efficient", "sdpa-cudnn", "sdpa-math", "eager"])
def test_a_peer_runs_its_own_kernels(peer: str) -> None:
    """What is asked for is what the kernels' names say, in a stream and in a graph."""
    try:
        run = runner(peer, PROBLEM, *inputs())
    except Unavailable as error:
        pytest.skip(str(error))
    for work in (run, captured(run)):
        names = [kernel.name for kernel in kernels_in(trace_of(work, 2))]
        assert family_of(names) == PEERS[peer], names


def test_a_process_on_the_gpu_answers_and_survives_what_does_not_fit() -> None:
    """Memory that is not there is an answer, and the next question gets one too."""
    session = GpuSession("0")
    try:
        memory = session.answer({"do": "memory"})
        assert 0 < memory["free_bytes"] <= memory["total_bytes"]
        answers = []
        for length in (512, 1 << 20):
            problem = AttentionProblem(batch=1, heads=4, seqlen_q=length, seqlen_k=length, head_dim=64)
            point = Point(schedule="naive", problem=problem, config=runnable_config("naive"), l2="warm")
            job = job_of(point, {"name": "h200", "set": []}, do="fits")
            answers.append(session.answer({**job, "ctas": 1}))
        assert answers[0]["peak_memory_bytes"] > 0
        assert answers[1]["out_of_memory"] and answers[1]["healthy"]
        assert session.answer({"do": "memory"})["free_bytes"] == memory["free_bytes"]
    finally:
        session.close()
