"""Machine code for measured rows: attached where the compiler here makes what ran, and told where it does not."""

from dataclasses import replace

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.validate.measure.results_file import Row
from tilesight.validate.measurement import Lost
from tilesight.validate.points.point import Point, runnable_config

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import triton
from support.compiling import compile_launch
from tilesight.kernels.compile.outcomes import Compiled
from tilesight.validate.compare.recompile import with_code

H200 = load_device("h200")
PROBLEM = AttentionProblem(batch=1, heads=2, seqlen_q=256, seqlen_k=256, head_dim=64)
POINT = Point(schedule="flash2", problem=PROBLEM, config=runnable_config("flash2"))


@pytest.fixture(scope="module")
def row() -> Row:
    """As a results file gives it back: with resources, without code."""
    (launch,) = POINT.launches(H200)
    outcome = compile_launch(launch, H200)
    assert isinstance(outcome, Compiled)
    assert outcome.resources.code is None
    return Row(point=POINT, resources=(outcome.resources,), outcome=Lost(key=POINT.key, reason="made up"))


def test_what_ran_gets_its_code(row: Row) -> None:
    """Predictions would look at block sizes alone; the resources stay what they were."""
    (coded,), note = with_code([row], H200, triton.__version__)
    assert coded.resources == row.resources
    assert coded.resources[0].code is not None
    assert "HGMMA" in coded.resources[0].code.sass
    assert note == "cycles come from machine code"


def test_what_the_compiler_makes_otherwise_stays_without(row: Row) -> None:
    """Code of another kernel than the one that ran would be predicted, and compared with it."""
    registers = row.resources[0].registers_per_thread + 8
    other = replace(row, resources=(replace(row.resources[0], registers_per_thread=registers),))
    never = replace(row, resources=())
    coded, note = with_code([other, row, never], H200, triton.__version__)
    assert [bool(row_coded.resources and row_coded.resources[0].code) for row_coded in coded] == [False, True, False]
    assert note.endswith("the compiler here builds another kernel for 1 point")


def test_another_compiler_is_not_asked(row: Row) -> None:
    """Registers differ between versions of Triton, and so does the code; the library answers, and the note says why."""
    (coded,), note = with_code([row], H200, "2.0.0")
    assert coded.resources[0].code is None
    assert coded.resources[0].figures is not None
    why = f"Triton 2.0.0 compiled what ran, and {triton.__version__} is here"
    assert note == f"cycles come from the library of compiled kernels ({why})"
