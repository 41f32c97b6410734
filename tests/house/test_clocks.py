"""No test depends on how fast the machine is: none reads a clock, sleeps or gives up early, but for a reason."""

import re

from house import farm

CLOCK = re.compile(
    r"\btime\.(?:sleep|time|monotonic|perf_counter|process_time)(?:_ns)?\(|^from time import", re.MULTILINE
)
TIMEOUT = re.compile(r"\btimeout(?:_s)?=(\d+(?:\.\d+)?)")
LEAST_TIMEOUT_S = 120
"""Where nothing hangs, the slowest machine is done; see `waiting.HANG_S`."""

REASONS = {
    "support/fake/answerer.py": "hangs when it is told to",
    "support/fake/ncu.py": "hangs when it is told to",
    "benchmarks/bench_predict.py": "measures time",
    "benchmarks/bench_profile.py": "measures time",
    "benchmarks/bench_simulate.py": "measures time",
    "benchmarks/bench_sm.py": "measures time",
    "benchmarks/bench_trace.py": "measures time",
    "benchmarks/bench_tune.py": "measures time",
    "support/fake/worker.py": "hangs when it is told to",
    "gpu/test_measuring.py": "its subject is a slow host",
    "house/test_clocks.py": "shows what is forbidden",
    "rooms/softmax_laws/test_runner.py": "code that hangs; its watchdog gives up only what has left a file before",
    "rooms/validate/test_ncu.py": "an ncu that hangs, however long one waits",
    "rooms/validate/test_workers.py": "a watchdog that only gives up what has left a file before it hung",
    "support/waiting.py": "looks again and again, and gives up after ten minutes",
}


def _depends_on_time(text: str) -> bool:
    return bool(CLOCK.search(text)) or any(float(limit) < LEAST_TIMEOUT_S for limit in TIMEOUT.findall(text))


def test_no_test_depends_on_time_without_a_reason() -> None:
    """Wait for an event, a file or a process's end instead: tests/support/waiting.py; and no reason is left over."""
    tests = farm.ROOT / "tests"
    depending = {
        str(path.relative_to(tests)) for path in tests.rglob("*.py") if _depends_on_time(path.read_text("utf-8"))
    }
    assert depending == set(REASONS)


def test_a_clock_and_a_short_timeout_are_seen() -> None:
    """And a watchdog that only ends what will never end is let pass."""
    wrong = ("time.sleep(0.1)", "assert time.perf_counter() - begin < 3", "from time import monotonic", "timeout=5")
    assert [_depends_on_time(text) for text in wrong] == [True] * len(wrong)
    assert not _depends_on_time("run(command, timeout=HANG_S); wait(timeout_s=600)")
