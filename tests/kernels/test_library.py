"""The library of compiled kernels against the compiler: a sample, another every day, compiled and simulated anew."""

import pytest
from support.todays_seed import todays_seed
from tilesight.kernels.launch.availability import missing_package

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import triton
from tilesight.simulator.library.lookup import made_by
from tilesight.validate.library.build import check, groups, path_of

SAMPLE = 2


@pytest.mark.parametrize("capability", [80, 90])
def test_a_sample_compiled_anew_gives_the_same_numbers(capability: int) -> None:
    """Registers, shared memory, spills, and every figure of every step, to a hundredth."""
    kept_by = made_by(path_of(groups(capability, None)[0][0][0]))["triton"]
    if triton.__version__ != kept_by:
        pytest.skip(f"the library is of Triton {kept_by}, and {triton.__version__} is here")
    seed = todays_seed()
    assert check(capability, None, SAMPLE, seed) == [], f"TILESIGHT_TEST_SEED={seed}: build the library anew"
