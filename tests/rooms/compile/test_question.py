"""Names of questions about kernel calls: equal where no answer can differ."""

from dataclasses import fields, replace

import pytest
from support.killed_sweeps import CALLS
from tilesight.kernels.compile.call import KernelLaunch
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


USE = StorageUse(number=0, bytes=64.0, written=False)
OTHERS = {
    "name": "other",
    "grid": (1, 2, 1),
    "num_stages": 4,
    "job": {"ttir": "other", "capability": 90},
    "arguments": {"n": 1},
    "storages": (FLOATS,),
    "before": ((USE,),),
    "tuned": 3,
    "configuration": {"BLOCK": 99},
    "cooperative": True,
}
"""Another value of each field of a call that decides an answer."""
NOT_ASKED = {"file", "line", "num_warps", "num_ctas"}
"""Where it stands in the source; and what the compiler's job says already."""


def test_every_field_of_a_call_is_asked() -> None:
    """A field that the name of a question leaves out has two questions share an answer."""
    names = {question_key([call], load_device("h100"), "h100", "cold") for call in (
        CALLS[0], *(replace(CALLS[0], **{name: value}) for name, value in OTHERS.items())
    )}  # fmt: skip
    assert len(names) == 1 + len(OTHERS)
    assert {field.name for field in fields(KernelLaunch)} == OTHERS.keys() | NOT_ASKED


@pytest.mark.parametrize("other", [(), ((replace(USE, written=True),),), ((replace(USE, bytes=32.0),),), ((USE,),) * 2])
def test_what_ran_before_is_asked(other: tuple[tuple[StorageUse, ...], ...]) -> None:
    """A launch that finds its input in L2 would be told the time of one that does not."""
    before, after = (replace(CALLS[0], before=uses) for uses in (((USE,),), other))
    h100 = load_device("h100")
    assert question_key([before], h100, "h100", "pipeline") != question_key([after], h100, "h100", "pipeline")
