"""Compilers stay and take turns; what dies, hangs or belongs to another process is replaced."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.waiting import ended, until
from tilesight.kernels.compile import pool
from tilesight.kernels.compile.pool import MOST_IDLE, Pool, Turns
from tilesight.simulator.jobs.processes import WorkerDied

TESTS = Path(__file__).parents[2]
EXITING = """
import sys
from tilesight.kernels.compile import pool
pool.WORKER = "support.fake.answerer"
print(pool.Turns(pool.POOL).answer({"do": "echo", "say": ""})["pid"])
"""
FORKING = (
    EXITING
    + """
import os
first = pool.Turns(pool.POOL)
pid = os.fork()
if pid == 0:
    print(first.answer({"do": "echo", "say": ""})["pid"], flush=True)
    sys.exit()
os.waitpid(pid, 0)
print(first.answer({"do": "echo", "say": ""})["pid"])
"""
)


@pytest.fixture
def compilers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """A pool of processes that do what a job says."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.setattr(pool, "WORKER", "support.fake.answerer")
    made = Pool()
    yield made
    made.close()


def pid_of(compilers: Pool) -> int:
    """The process that answers."""
    return int(Turns(compilers).answer({"do": "echo", "say": ""})["pid"])


def said_by(script: str) -> list[int]:
    """Numbers that a Python process prints."""
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stderr == ""
    return [int(line) for line in done.stdout.split()]


def test_calls_one_after_the_other_share_a_process(compilers: Pool) -> None:
    """It is started once."""
    assert pid_of(compilers) == pid_of(compilers)


def test_a_compiler_that_died_is_replaced(compilers: Pool) -> None:
    """Its job is refused with the reason of this death, and not of what was printed for jobs before."""
    first = pid_of(compilers)
    with pytest.raises(WorkerDied, match="RuntimeError: no luck today"):
        Turns(compilers).answer({"do": "raise"})
    with pytest.raises(WorkerDied, match=r"died \(status 3\): printed by a library"):
        Turns(compilers).answer({"do": "half"})
    assert pid_of(compilers) != first


def test_a_compiler_that_hangs_is_ended_and_replaced(
    compilers: Pool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After the time that a job may take."""
    first = pid_of(compilers)
    with monkeypatch.context() as short:
        short.setattr(pool, "TIMEOUT_S", 0.5)
        with pytest.raises(WorkerDied, match=r"hang: the compiler gave no answer in 0\.5 s"):
            Turns(compilers).answer({"do": "wait", "asked": str(tmp_path / "asked")})
    assert ended(first)
    assert pid_of(compilers) != first


def test_an_interrupted_call_ends_its_own_compilers_alone(compilers: Pool, tmp_path: Path) -> None:
    """What others compile at the same time goes on."""
    mine, others = Turns(compilers), Turns(compilers)
    deaths: list[str] = []

    def waits(turns: Turns, name: str) -> None:
        try:
            turns.answer({"do": "wait", "asked": str(tmp_path / name)})
        except WorkerDied:
            deaths.append(name)

    threads = [threading.Thread(target=waits, args=asked) for asked in ((mine, "mine"), (others, "others"))]
    for thread in threads:
        thread.start()
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    mine.kill()
    threads[0].join()
    assert deaths == ["mine"]
    others.kill()
    threads[1].join()


def test_a_changed_environment_gets_new_compilers(compilers: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton reads its variables when it is imported."""
    first = pid_of(compilers)
    monkeypatch.setenv("TRITON_PTXAS_PATH", "elsewhere")
    assert pid_of(compilers) != first
    assert ended(first)


def test_no_more_compilers_stay_than_are_worth_their_memory(compilers: Pool) -> None:
    """Those beyond are ended when they are given back."""
    taken = [compilers.take() for _ in range(MOST_IDLE + 2)]
    pids = [compiler.ask({"do": "echo", "say": ""}, 600)["pid"] for compiler in taken]
    for compiler in taken:
        compilers.give_back(compiler)
    assert [ended(pid, 0) for pid in pids] == [False] * MOST_IDLE + [True, True]


def test_compilers_end_with_the_process() -> None:
    """Nobody else would end them."""
    (pid,) = said_by(EXITING)
    assert ended(pid)


def test_a_forked_child_starts_compilers_of_its_own() -> None:
    """It neither asks nor ends those of its parent."""
    before, child, after = said_by(FORKING)
    assert before == after != child
