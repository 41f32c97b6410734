"""Numbers of an architecture: where they come from, what a device file may replace, and what is refused."""

import re
from importlib import resources
from pathlib import Path

import pytest
from tilesight.simulator.device import device as device_room
from tilesight.simulator.device.device import catalogue, load_device, parse_device
from tilesight.simulator.device.numbers import KINDS, Provenance
from tilesight.simulator.device.sm_numbers import (
    architecture_of,
    architectures,
    load_sm,
    parse_sm,
    sm_fields,
)
from tilesight.simulator.device.what_if import override

FOLDER = resources.files(device_room.__package__)
SM_90 = (FOLDER / "sm" / "sm_90.toml").read_text("utf-8")
H200 = (FOLDER / "catalogue" / "h200.toml").read_text("utf-8")
QUEUE = 'wgmma_queue_products = { value = 6, kind = "measured", source = "our card" }'
GUIDE = (Path(__file__).parents[3] / "docs" / "devices.md").read_text("utf-8")


def without(key: str) -> str:
    text, count = re.subn(rf"^{key} = .*\n", "", SM_90, flags=re.MULTILINE)
    assert count == 1
    return text


def test_every_device_of_the_catalogue_has_an_architecture() -> None:
    """Each of ten GPUs finds the numbers of its SMs."""
    assert {architecture_of(load_device(name).compute_capability) for name in catalogue()} == set(architectures())


@pytest.mark.parametrize("key", list(sm_fields()))
def test_a_missing_number_is_named(key: str) -> None:
    """File and key, whichever is lost; nothing takes its place."""
    with pytest.raises(ValueError, match=rf"^sm_90\.toml: key '{key}' is missing \(.+\)$"):
        parse_sm(without(key), "sm_90.toml")


def test_every_number_of_hopper_has_a_kind_and_a_source() -> None:
    """Nothing is carried over, and no source is a word."""
    for key, origin in load_sm("sm_90").provenance.items():
        assert origin.kind in KINDS and not origin.source.startswith("carried over"), key
        assert len(origin.source) > 5, key


@pytest.mark.parametrize("name", [name for name in architectures() if name != "sm_90"])
def test_other_architectures_say_what_is_carried_over(name: str) -> None:
    """The same values as Hopper's, but for one before it, and each tells whose it is and what it was there."""
    sm, hopper = load_sm(name), load_sm("sm_90")
    apart = {"busy_pipe_turns"} if name in ("sm_80", "sm_86", "sm_89") else set()
    assert {key for key in hopper.provenance if getattr(sm, key) != getattr(hopper, key)} == apart
    for key, origin in sm.provenance.items():
        if key in apart:
            continue
        hopper_origin = hopper.provenance[key]
        assert origin == Provenance(
            "assumed", f"carried over from sm_90 ({hopper_origin.kind}: {hopper_origin.source})"
        )


def test_an_architecture_may_have_some_numbers_of_its_own() -> None:
    """The others stay those of its base."""
    sm = parse_sm(f'base = "sm_90"\n{QUEUE}\n', "sm_77.toml")
    assert sm.wgmma_queue_products == 6
    assert sm.provenance["wgmma_queue_products"] == Provenance("measured", "our card")
    assert sm.bsync_cycles == load_sm("sm_90").bsync_cycles
    assert sm.provenance["bsync_cycles"].source.startswith("carried over from sm_90 (measured: ")


def test_a_device_file_may_replace_single_numbers() -> None:
    """In a table [sm]; the others keep value, kind and source."""
    device, h200 = parse_device(f"{H200}\n[sm]\n{QUEUE}\n", "my.toml"), load_device("h200")
    assert device != h200
    assert device.sm.changed(h200.sm, "machine code") == ["wgmma_queue_products"]
    assert device.sm.changed(h200.sm, "clock", "tiles") == []
    assert device.sm.provenance["wgmma_queue_products"] == Provenance("measured", "our card")
    assert device.sm.provenance["bsync_cycles"] == h200.sm.provenance["bsync_cycles"]


def test_a_device_of_an_unknown_architecture_names_whose_numbers_it_takes() -> None:
    """Else the refusal says what to write."""
    other = H200.replace('compute_capability = "9.0"', 'compute_capability = "11.0"')
    with pytest.raises(ValueError) as caught:
        parse_device(other, "my.toml")
    expected = "my.toml: compute_capability = '11.0': no numbers of sm_110's SMs are known; name those"
    assert str(caught.value).startswith(expected)
    device = parse_device(f'{other}\n[sm]\nbase = "sm_100"\n{QUEUE}\n', "my.toml")
    assert (device.sm.wgmma_queue_products, device.sm.bsync_cycles) == (6, 26)
    assert device.sm.provenance["bsync_cycles"].source.startswith("carried over from sm_90 (measured: ")


def line(key: str, value: str, kind: str = "fitted") -> str:
    return f'[sm]\n{key} = {{ value = {value}, kind = "{kind}", source = "us" }}'


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("sm = 3", "sm = 3: must be a table [sm]"),
        ('[sm]\nbase = "sm_91"', "[sm] architecture 'sm_91' is unknown"),
        ("[sm]\nbase = 90", "[sm] architecture '90' is unknown"),
        ("[sm]\nbsync_cycle = 3", "[sm] key 'bsync_cycle' is unknown: did you mean bsync_cycles"),
        ("[sm]\nbsync_cycles = 3", "[sm] bsync_cycles: must be { value = ..., kind = ..., source = ... }"),
        (line("bsync_cycles", "2.5"), "[sm] bsync_cycles = 2.5: must be a whole number from 0"),
        (line("bsync_cycles", "26", "carried over"), "[sm] bsync_cycles: kind = 'carried over': must be one of"),
        (line("bsync_cycles", "[26]"), "[sm] bsync_cycles = [26]: must be a number from 0"),
        (line("clock_cluster_ranks", "[0, 1]"), "[sm] clock_cluster_ranks = (0, 1): must be a list of 8 numbers"),
        (line("clock_cluster_ranks", "[0, 1, 2, 3, 4, 5, 6, 9]"), "[sm] clock_cluster_ranks[7] = 9: must be a number"),
        (line("l1_hit_fractions", "0.5"), "[sm] l1_hit_fractions = 0.5: must be a list of 7 numbers"),
        (line("spill_l1_kept_fraction", "1.3"), "[sm] spill_l1_kept_fraction = 1.3: must be below spill_l1_lost_f"),
        (line("l1_reach_fractions", "[1, 2, 3, 3, 3.1, 3.2, 3.3]"), "[sm] l1_reach_fractions = [1, 2, 3, 3, 3.1, "),
        (line("l1_whole_reach_fractions", "[1, 2, 3, 2, 3, 4, 4]"), "[sm] l1_whole_reach_fractions = [1, 2, 3, 2, "),
        (line("l1_room_fractions", "[0.9, 0.5]"), "[sm] l1_room_fractions = [0.9, 0.5]: must rise"),
    ],
)
def test_a_mistake_in_the_table_gets_one_line(table: str, expected: str) -> None:
    """It names file, table, key and what is allowed."""
    with pytest.raises(ValueError) as caught:
        parse_device(f"{H200}\n{table}\n" if table.startswith("[") else f"{table}\n{H200}", "my.toml")
    assert str(caught.value).startswith(f"my.toml: {expected}")
    assert "\n" not in str(caught.value)


def test_a_setting_replaces_a_number_of_the_sm() -> None:
    """As it does a device's, and says so; lists are for files."""
    h200 = load_device("h200")
    device = override(h200, ["wgmma_queue_products=6", "l2_bytes=30MiB"])
    assert (device.sm.wgmma_queue_products, device.l2_bytes) == (6, 30 << 20)
    assert device.sm.provenance["wgmma_queue_products"] == Provenance("set", "--set")
    assert h200.sm.wgmma_queue_products == 4
    with pytest.raises(ValueError, match=r"^--set clock_cluster_ranks: is a list of numbers"):
        override(h200, ["clock_cluster_ranks=3"])
    with pytest.raises(ValueError, match=r"^--set bsync_cycles: bsync_cycles = 0\.5: must be a whole number"):
        override(h200, ["bsync_cycles=0.5"])
