"""Predictions over a Dask cluster whose workers are killed: none is lost, and all are those of one process."""

import os
import signal
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from support.killed_sweeps import TARGET, call_of

from tilesight.tuning import answers
from tilesight.tuning.answers import Job, predict_all
from tilesight.tuning.clusters import NoCluster, dask_executor

COUNT, WORKERS, KILLS = 10_000, 8, 3


def by_worker(job: Job) -> tuple[Any, ...]:
    """A figure that depends on the launch alone, made without this file, which workers do not have."""
    from tilesight.simulator.prediction.kernel_row import KernelRow
    from tilesight.simulator.prediction.kernels import KernelsPrediction

    return tuple(
        KernelsPrediction(
            device="h100-sxm",
            l2="cold",
            rows=(KernelRow(name="k", grid=call.grid, num_warps=4, num_stages=3, executed_instructions=call.grid[0]),),
        )
        for call in job.calls
    )


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Eight workers in processes of their own, which are started again when they die."""
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster:
            yield cluster


@pytest.mark.filterwarnings("ignore")
def test_ten_thousand_predictions_survive_killed_workers(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal to those of one process, in order."""
    import cloudpickle
    from rooms.tuning import test_clusters

    cloudpickle.register_pickle_by_value(test_clusters)
    monkeypatch.setattr(answers, "answer", by_worker)
    calls = [call_of(number) for number in range(COUNT)]
    killed: list[int] = []

    def kill_some(done: int, total: int) -> None:
        if len(killed) < KILLS and done >= total * (len(killed) + 1) // (KILLS + 2):
            worker = list(cluster.workers.values())[len(killed)]
            killed.append(worker.pid)
            os.kill(worker.pid, signal.SIGKILL)

    with dask_executor(cluster.scheduler_address) as executor:
        rows = predict_all(calls, TARGET, store=None, executor=executor, progress=kill_some)
    assert len(killed) == KILLS
    assert rows == predict_all(calls, TARGET, store=None, workers=1, together=500)


def test_an_address_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within ten seconds, and before anything is predicted."""
    pytest.importorskip("distributed")
    monkeypatch.setattr("tilesight.tuning.clusters.WAIT_S", 0.2)
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        with pytest.raises(NoCluster) as caught, dask_executor(address):
            pass
        assert str(caught.value).startswith(f"'{address}': no scheduler answers within 0.2 s (")
        assert "\n" not in str(caught.value)
