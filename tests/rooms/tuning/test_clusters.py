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
from tilesight.tuning.clusters import CLUSTERS, NoCluster

KILLS = 3


@pytest.mark.parametrize("kind, package, count, workers", [("dask", "distributed", 10_000, 8), ("ray", "ray", 100, 2)])
def test_predictions_survive_killed_workers(kind: str, package: str, count: int, workers: int) -> None:
    """Ten thousand of them equal to those of one process, in order."""
    pytest.importorskip(package)
    command = [sys.executable, str(Path(killed_workers.__file__)), kind, *map(str, (count, workers, KILLS))]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == {"killed": KILLS, "rows": count, "otherwise": []}


@pytest.mark.parametrize("name, package, connect", [("--dask", "distributed", "Client"), ("--ray", "ray", "init")])
def test_an_address_that_does_not_answer_is_one_line(
    name: str, package: str, connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing listens, where what listens says nothing, and where the address is none; within ten seconds."""
    ended = Event()
    monkeypatch.setattr("tilesight.tuning.clusters.WAIT_S", 0.2)
    monkeypatch.setattr(pytest.importorskip(package), connect, lambda address, **how: ended.wait())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for address in ("127.0.0.1:1", f"tcp://127.0.0.1:{silent.getsockname()[1]}", "nonsense", "nonsense://x"):
            with pytest.raises(NoCluster) as caught, CLUSTERS[name](address):
                pass
            assert str(caught.value).startswith(f"'{address}': no cluster answers within 0.2 s (")
            assert "\n" not in str(caught.value)
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
