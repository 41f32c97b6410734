"""The instruments on a GPU: times, clock, witnesses, and counters, each against something known."""

import time
from collections.abc import Callable
from functools import cache

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
    from tilesight.validate.measure.output_checks import is_stale, poison, untouched_fraction, watch_streams
    from tilesight.validate.measure.process import track_and_tare
    from tilesight.validate.measure.run_point import job_of
    from tilesight.validate.measure.session import GpuSession

    DEVICE = device_of(torch.empty(0, device="cuda"))

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


def test_a_process_on_the_gpu_answers_and_survives_what_does_not_fit() -> None:
    """Memory that is not there is an answer, and the next question gets one too."""
    session = GpuSession("0")
    try:
        answers = []
        for length in (512, 1 << 20, 512):
            problem = AttentionProblem(batch=1, heads=4, seqlen_q=length, seqlen_k=length, head_dim=64)
            point = Point(schedule="naive", problem=problem, config=runnable_config("naive"), l2="warm")
            answers.append(session.answer(job_of(point, {"name": "h200", "set": []})))
        first, lost, again = answers
        assert lost["out_of_memory"] and lost["healthy"]
        peaks = [answer["measurement"]["peak_memory_bytes"] for answer in (first, again)]
        assert 0 < peaks[0] == peaks[1]
    finally:
        session.close()
