"""Prices of torch's operations, held against what an H200 and an H100 took."""

from statistics import mean

import pytest
from rooms.operations.measured import FUNCTIONS, cases, kernels_of
from tilesight.simulator.device.device import load_device

FUNCTION_CASES = {case.name: case for case in cases(FUNCTIONS)}


def test_nine_functions_take_as_long_as_on_an_h200() -> None:
    """Eager, the constants read off an H100's operations and these: in the mean 4 % off, none 10."""
    device = load_device("h200")
    errors = {}
    for name, case in FUNCTION_CASES.items():
        predicted = 1e6 * sum(kernel.time_s for kernel in kernels_of(case.operations, device))
        errors[name] = predicted / sum(us for _, us in case.warm) - 1.0
    assert mean(map(abs, errors.values())) < 0.04
    assert max(map(abs, errors.values())) < 0.10, errors


@pytest.mark.parametrize("name", FUNCTION_CASES)
def test_functions_launch_the_kernels_that_were_counted(name: str) -> None:
    """Memsets too, of which the vendor's libraries bring some."""
    priced = [kernel.name == "Memset" for kernel in kernels_of(FUNCTION_CASES[name].operations, load_device("h200"))]
    assert priced == [kernel.startswith("Memset") for kernel, _ in FUNCTION_CASES[name].warm]
