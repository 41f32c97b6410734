"""Predictions over a Dask cluster whose workers are killed: none is lost, and all are those of one process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import killed_workers

from tilesight.tuning.clusters import NoCluster, dask_executor

COUNT, WORKERS, KILLS = 10_000, 8, 3


def test_ten_thousand_predictions_survive_killed_workers() -> None:
    """Equal to those of one process, in order."""
    pytest.importorskip("distributed")
    command = [sys.executable, str(Path(killed_workers.__file__)), *map(str, (COUNT, WORKERS, KILLS))]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == {"killed": KILLS, "rows": COUNT, "equal": True}


def test_an_address_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within ten seconds, and before anything is predicted."""
    pytest.importorskip("distributed")
    monkeypatch.setattr("tilesight.tuning.clusters.WAIT_S", 0.2)
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        with pytest.raises(NoCluster) as caught, dask_executor(address):
            pass
        assert str(caught.value).startswith(f"'{address}': no scheduler answers within 0.2 s (")
        assert "\n" not in str(caught.value)
