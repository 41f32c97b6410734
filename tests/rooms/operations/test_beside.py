"""Profiles beside each other: eager and compiled, and devices."""

from support.steps import H200, kernel, matmul, profiled, tensor, torch_operation
from tilesight.simulator.operations.operation import Operation
from tilesight.simulator.operations.profile import Profile
from tilesight.simulator.report.operations.modes import devices_text, modes_text, profiles_json


def _fused() -> Profile:
    held = Operation(
        kind="triton",
        name="triton_poi_fused_add_gelu_0",
        inputs=(tensor(8),),
        outputs=(tensor(8),),
        parts=("add", "gelu"),
    )
    return profiled([held], [[kernel(2e-6, name=held.name, source="simulated")]], mode="compiled")


def test_what_fusing_saves_is_a_ratio() -> None:
    """Of kernels, time and bytes; and what each fused kernel holds."""
    eager = profiled([torch_operation("add"), torch_operation("gelu")], [[kernel(3e-6)]] * 2)
    lines = [line.split() for line in modes_text([eager, _fused()], 120).splitlines()]
    assert ["kernels", "2", "1", "2.00x"] in lines
    assert ["time", "6.00", "us", "2.00", "us", "3.00x"] in lines
    assert ["HBM", "bytes", "6.00", "kB", "3.00", "kB", "2.00x"] in lines
    assert lines[-1] == ["triton_poi", "x", "1", "2.00", "us", "add", "+", "gelu"]


def test_a_comparison_that_lacks_kernels_says_so_first() -> None:
    """Ratios of sums that lack something are no ratios of steps."""
    eager = profiled([torch_operation("sort")], [[kernel(1e-6, source="refused", reason="no price")]])
    assert modes_text([eager, _fused()], 120).startswith("Incomplete: ")


def test_devices_that_the_step_fits_come_first() -> None:
    """However fast the others are."""
    slow = profiled([matmul(64, 64, 64)], [[kernel(9e-6)]])
    fast = profiled([matmul(64, 64, 64)], [[kernel(1e-6)]], peak_bytes=H200.hbm_bytes + (1 << 30))
    rows = devices_text([fast, slow], 140).splitlines()[-2:]
    assert "9.00 us" in rows[0] and "yes" in rows[0]
    assert "1.00 us" in rows[1] and "no: 1.03 GiB too much" in rows[1]


def test_a_device_that_failed_keeps_its_place_in_json() -> None:
    """With its reason; one profile alone is no list."""
    profile = _fused()
    assert profiles_json({"h200": [profile]}) == profile.to_dict()
    both = profiles_json({"h100-sxm": "no memory", "h200": [profile]})
    assert isinstance(both, list)
    assert both[0] == {"schema": "tilesight.profile/1", "device": "h100-sxm", "failed": "no memory"}
