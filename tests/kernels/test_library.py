"""The library of compiled kernels against the compiler: a sample, compiled and simulated anew, gives the same."""

import random

import pytest
from tilesight.kernels.launch.availability import missing_package

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import triton
from tilesight.kernels.compile.compile import compile_many
from tilesight.simulator.library.files import pack, unpack
from tilesight.simulator.library.lookup import made_by
from tilesight.validate.library.build import devices_of, groups, kept_kernel, path_of

SAMPLE = 4


@pytest.mark.parametrize("capability", [80, 90])
def test_a_sample_compiled_anew_gives_the_same_numbers(capability):
    """Registers, shared memory, spills, and every figure of every step, in the units in which they are kept."""
    known = dict(groups(capability, None))
    kept_by = made_by(path_of(min(known)[0]))["triton"]
    if triton.__version__ != kept_by:
        pytest.skip(f"the library is of Triton {kept_by}, and {triton.__version__} is here")
    for file, key in random.Random(capability).sample(sorted(known), SAMPLE):
        launches = [launch for launch, _ in known[file, key]]
        outcomes = compile_many(known[file, key], devices_of(capability)[0], code=True, workers=1)
        made = kept_kernel(devices_of(capability), list(zip(launches, outcomes, strict=True)))
        kept = unpack(path_of(file).read_bytes())[0][key]
        assert pack({key: made}, {}) == pack({key: kept}, {}), f"{file}: {key}"
