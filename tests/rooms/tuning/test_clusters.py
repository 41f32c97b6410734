"""Predictions over a Dask and a Ray cluster whose workers are killed: none is lost, all are those of one process."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest
from support import killed_workers

from tilesight.cli.main import main
from tilesight.tuning.clusters import CLUSTERS, NoCluster, dask_executor, ray_executor

KILLS = 3


@pytest.mark.parametrize("kind, package, count, workers", [("dask", "distributed", 10_000, 8), ("ray", "ray", 100, 2)])
def test_predictions_survive_killed_workers(kind: str, package: str, count: int, workers: int) -> None:
    """Ten thousand of them equal to those of one process, in order."""
    pytest.importorskip(package)
    command = [sys.executable, str(Path(killed_workers.__file__)), kind, *map(str, (count, workers, KILLS))]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == {"killed": KILLS, "rows": count, "equal": True}


def test_an_address_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within ten seconds, and before anything is predicted."""
    pytest.importorskip("distributed")
    monkeypatch.setattr("tilesight.tuning.clusters.WAIT_S", 0.2)
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        with pytest.raises(NoCluster) as caught, dask_executor(address):
            pass
        assert str(caught.value).startswith(f"'{address}': no scheduler answers within 0.2 s (")
        assert "\n" not in str(caught.value)


def test_neither_does_ray_wait_longer_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing listens, where what listens says nothing, and where the address is none."""
    ray, ended = pytest.importorskip("ray"), Event()
    monkeypatch.setattr("tilesight.tuning.clusters.WAIT_S", 0.2)
    monkeypatch.setattr(ray, "init", lambda address, **how: ended.wait() if ":" in address else int(address))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for address in ("127.0.0.1:1", f"ray://127.0.0.1:{silent.getsockname()[1]}", "nonsense"):
            with pytest.raises(NoCluster) as caught, ray_executor(address):
                pass
            assert str(caught.value).startswith(f"'{address}': no head answers within 0.2 s (")
    ended.set()


@pytest.mark.parametrize(
    "name, package, install", [("--dask", "distributed", "distributed"), ("--ray", "ray", "'ray[client]'")]
)
def test_a_cluster_whose_library_is_not_installed_says_what_to_install(
    name: str, package: str, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line."""
    monkeypatch.setitem(sys.modules, package, None)
    with (
        pytest.raises(NoCluster, match=f"^'a:1': .* is not installed: pip install {re.escape(install)}$"),
        CLUSTERS[name]("a:1"),
    ):
        pass


def test_two_clusters_are_one_too_many(capsys: pytest.CaptureFixture[str]) -> None:
    """Before the function is looked at."""
    assert main(["tune", "a.py:f", "--dask", "tcp://a:1", "--ray", "b:1"]) == 2
    assert capsys.readouterr().err == "tilesight: --ray 'b:1': is given beside --dask; name one cluster\n"
