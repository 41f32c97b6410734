"""Made-up predictions over a cluster some of whose workers are killed; a program that tells what became of them.

    python killed_workers.py dask|ray COUNT WORKERS KILLS

A program of its own: a cluster whose workers were killed does not always close, and this process ends without that.
"""

import json
import os
import signal
import sys
import warnings
from contextlib import redirect_stdout, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from support.killed_sweeps import TARGET, call_of

from tilesight.tuning import answers, clusters
from tilesight.tuning.answers import predict_all
from tilesight.tuning.clusters import dask_executor, ray_executor
from tilesight.tuning.workers import Job

DEATHS = "TILESIGHT_TEST_DEATHS"
"""Variable of the environment: a folder, where a worker that dies leaves a file for each launch that it dies of."""


def by_worker(job: Job) -> tuple[Any, ...]:
    """A figure that depends on the launch alone, made without this file, which workers do not have."""
    from tilesight.simulator.prediction.kernel_row import KernelRow
    from tilesight.simulator.prediction.kernels import KernelsPrediction

    if folder := os.environ.get("TILESIGHT_TEST_DEATHS"):
        for number in {call.grid[0] for call in job.calls} & {1, 50, 99}:
            with suppress(FileExistsError):
                (Path(folder) / str(number)).touch(exist_ok=False)
                os._exit(1)
    return tuple(
        KernelsPrediction(
            device="h100-sxm",
            l2="cold",
            rows=(KernelRow(name="k", grid=call.grid, num_warps=4, num_stages=3, executed_instructions=call.grid[0]),),
        )
        for call in job.calls
    )


def otherwise(rows: list[Any], alone: list[Any]) -> list[str]:
    """The first of the rows that are not those of one process."""
    return [str(row) for row, single in zip(rows, alone, strict=True) if row != single][:3]


def survived_in_ray(count: int, workers: int, kills: int) -> dict[str, Any]:
    """The same of workers that die while they predict."""
    from ray.cluster_utils import Cluster

    answers.answer = by_worker
    calls = [call_of(number) for number in range(count)]
    with TemporaryDirectory() as folder:
        os.environ[DEATHS] = folder
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": workers, "include_dashboard": False})
        del os.environ[DEATHS]
        with redirect_stdout(sys.stderr), ray_executor(cluster.address) as executor:
            rows = predict_all(calls, TARGET, store=None, executor=executor)
        cluster.shutdown()
        died = len(os.listdir(folder))
    assert died == kills
    alone = predict_all(calls, TARGET, store=None, workers=1)
    return {"killed": died, "rows": len(rows), "otherwise": otherwise(rows, alone)}


def survived(count: int, workers: int, kills: int) -> dict[str, Any]:
    """Predict so many launches by so many workers, and kill some on the way. Returns: kills and differences."""
    from distributed import LocalCluster

    answers.answer = by_worker
    calls = [call_of(number) for number in range(count)]
    killed: list[int] = []
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None)

    def kill_some(done: int, total: int) -> None:
        if len(killed) < kills and done >= total * (len(killed) + 1) // (kills + 2):
            killed.append(list(cluster.workers.values())[len(killed)].pid)
            os.kill(killed[-1], signal.SIGKILL)

    with dask_executor(cluster.scheduler_address) as executor:
        rows = predict_all(calls, TARGET, store=None, executor=executor, progress=kill_some)
    for worker in cluster.workers.values():
        if worker.pid:
            os.kill(worker.pid, signal.SIGKILL)
    alone = predict_all(calls, TARGET, store=None, workers=1, together=500)
    return {"killed": len(killed), "rows": len(rows), "otherwise": otherwise(rows, alone)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    clusters.WAIT_S = 600.0  # the machine may be busy
    outcome = {"dask": survived, "ray": survived_in_ray}[sys.argv[1]](*map(int, sys.argv[2:]))
    sys.stdout.write(json.dumps(outcome))
    sys.stdout.flush()
    os._exit(0)
