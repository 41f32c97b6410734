"""Names of questions about kernel calls: equal where no answer can differ."""

from dataclasses import replace

import pytest
from support.killed_sweeps import CALLS
from tilesight.kernels.compile.question import question_key
from tilesight.simulator.device.device import load_device
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.launch.before import StorageUse

FLOATS = Storage(number=0, size_bytes=64, name="x", origin="written by kernel a")
UNKNOWN = replace(FLOATS, whole=True)
KNOWN = replace(UNKNOWN, values=bytes(64))


def key(storage: Storage) -> str:
    """The name of a launch that is given one storage."""
    return question_key([replace(CALLS[0], storages=(storage,))], load_device("h100"), "h100", "cold")


@pytest.mark.parametrize(("storage", "is_named"), [(FLOATS, False), (KNOWN, False), (UNKNOWN, True)])
def test_who_wrote_a_tensor_is_asked_only_where_a_refusal_says_it(storage: Storage, is_named: bool) -> None:
    """Layers that differ in which kernel wrote their floats are one question; whole numbers may be refused."""
    assert (key(storage) != key(replace(storage, origin="written by kernel b"))) == is_named


def test_values_and_sizes_of_tensors_are_asked() -> None:
    """Other values, and another size, are another question."""
    others = [KNOWN, replace(KNOWN, values=bytes(63) + b"1"), replace(KNOWN, size_bytes=128), UNKNOWN]
    assert len({key(storage) for storage in others}) == len(others)


def test_what_ran_before_is_asked() -> None:
    """The same launch on another L2: behind nothing, a kernel that read or wrote, more or fewer bytes, or two."""
    use = StorageUse(number=0, bytes=64.0, written=False)
    befores = [
        (), ((use,),), ((use,), (use,)), ((replace(use, written=True),),), ((replace(use, bytes=32.0),),),
        ((replace(use, number=1),),), ((use, replace(use, number=1)),), ((replace(use, number=1), use),),
    ]  # fmt: skip
    calls = [replace(CALLS[0], before=before) for before in befores]
    assert len({question_key([call], load_device("h100"), "h100", "cold") for call in calls}) == len(befores)
