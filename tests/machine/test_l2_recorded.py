"""What an H200's L2 kept of sequences of reads, writes and copies, against the engine."""

from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.lab import LAB, measured
from tilesight.simulator.device.device import load_device

ROOT = Path(__file__).parents[2]
H200 = load_device("h200")
MOST = {"hbm_read_bytes": 0.05, "hbm_write_bytes": 0.05, "fabric_bytes": 0.06}
"""Mean difference over the data touched; all sequences together keep to 0.02, 0.01 and 0.03."""


def replayer() -> ModuleType:
    spec = util.spec_from_file_location("l2_policy", LAB / "l2_policy.py")
    assert spec
    assert spec.loader
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recorded() -> list[dict[str, Any]]:
    sequences: list[dict[str, Any]] = measured("l2-h200-2026-11-21")["sequences"]
    return sequences


@pytest.mark.parametrize("name", ["E3", "E4", "E5", "E7", "E8", "E10"])
def test_l2_keeps_what_an_h200_kept(name: str) -> None:
    """Sweeps in step, what is written and read again, copies to and fro, and what streams drive out."""
    replay = replayer().replay
    differences = [
        [abs(getattr(run, key) - counted[key]) / (1e6 * counted["megabytes"]) for key in MOST]
        for sequence in recorded()
        if sequence["name"] == name
        for counted, run in zip(sequence["launches"], replay(sequence, H200), strict=True)
    ]
    assert (np.mean(differences, axis=0) < list(MOST.values())).all()
