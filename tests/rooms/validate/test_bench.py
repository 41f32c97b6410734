"""The process that answers: what it dies of costs one answer, and a refusal costs nothing."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from tilesight.simulator.jobs.processes import WorkerDied
from tilesight.validate.measure import session


class MadeUpProcess:
    """Gives the answers that it was told, or dies; counts how often it was ended."""

    def __init__(self, *answers: dict[str, Any] | WorkerDied) -> None:
        self.answers, self.stopped = list(answers), 0

    def ask(self, job: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """The next answer."""
        answer = self.answers.pop(0)
        if isinstance(answer, WorkerDied):
            raise answer
        return answer

    def stop(self) -> None:
        """End it."""
        self.stopped += 1


@pytest.mark.parametrize(
    ("answer", "stopped"),
    [
        ({"peak_memory_bytes": 512}, 0),
        ({"lost": "out of memory: CUDA", "out_of_memory": True, "healthy": True}, 0),
        ({"lost": "illegal address: CUDA error"}, 1),
    ],
)
def test_only_a_process_that_may_be_broken_is_ended(
    answer: dict[str, Any], stopped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new one takes seconds to start; a broken context would spoil every later answer."""
    process = MadeUpProcess(answer)
    monkeypatch.setattr(session, "WorkerProcess", lambda *arguments: process)
    assert session.GpuSession("0").answer({"do": "point"}) == answer
    assert process.stopped == stopped


def test_a_gpu_that_does_not_answer_starts_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is the process's."""
    monkeypatch.setattr(session, "WorkerProcess", lambda *_: MadeUpProcess({"lost": "RuntimeError: no CUDA driver"}))
    with pytest.raises(WorkerDied, match="RuntimeError: no CUDA driver"):
        session.GpuSession("0").machine()


def test_a_process_that_dies_costs_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last words are the reason, and the next job is answered."""
    process = MadeUpProcess(WorkerDied("the process on the GPU died (signal 11, SIGSEGV)"), {"free_bytes": 1})
    monkeypatch.setattr(session, "WorkerProcess", lambda *arguments: process)
    asked = session.GpuSession("0")
    assert asked.answer({"do": "point"}) == {"lost": "the process on the GPU died (signal 11, SIGSEGV)"}
    assert asked.answer({"do": "machine"}) == {"free_bytes": 1}
    asked.close()
    assert process.stopped == 1


def test_torch_is_not_imported_before_a_gpu_is_chosen() -> None:
    """CUDA_VISIBLE_DEVICES counts for nothing once torch has looked at the GPUs."""
    code = "import sys, tilesight.validate.worker; sys.exit(bool({'torch', 'triton'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
