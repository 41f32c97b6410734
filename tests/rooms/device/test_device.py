"""Device files of one's own: every mistake gets one clear line, and what is set is said."""

import dataclasses
import re
from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tilesight.simulator.device import device as device_room
from tilesight.simulator.device.device import (
    Device,
    device_of_product,
    load_device,
    number_fields,
    parse_device,
)
from tilesight.simulator.device.numbers import Provenance
from tilesight.simulator.device.what_if import override


def text_of(name: str) -> str:
    return (resources.files(device_room.__package__) / "catalogue" / f"{name}.toml").read_text("utf-8")


H200 = text_of("h200")


def with_line(key: str, line: str) -> str:
    """The H200 file with the line of one key replaced."""
    text, count = re.subn(rf"^{key} = .*$", lambda _: line, H200, flags=re.MULTILINE)
    assert count == 1
    return text


def message(text: str) -> str:
    with pytest.raises(ValueError) as caught:
        parse_device(text, "my.toml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_missing_key_is_named_with_its_meaning() -> None:
    """Without `l2_bytes` the message names file, key and what the key means."""
    assert message(with_line("l2_bytes", "")) == (
        "my.toml: key 'l2_bytes' is missing (L2 capacity, all partitions together)"
    )


def test_name_and_compute_capability_are_required() -> None:
    """Both are texts and must be there."""
    assert "key 'name' is missing" in message(with_line("name", ""))
    assert "name holds the control character '\\x9b'" in message(with_line("name", 'name = "a\\u009b31m"'))
    assert "key 'compute_capability' is missing or no text" in message(
        with_line("compute_capability", "compute_capability = 9.0")
    )


def test_misspelt_key_is_named() -> None:
    """A key that `Device` lacks is an error, never ignored."""
    assert "my.toml: key 'l2_byte' is unknown" in message(H200 + "\nl2_byte = 1")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("l2_bytes", "0", "my.toml: l2_bytes = 0: must be a number from 65536 to 1.71799e+10"),
        ("sms", "-132", "my.toml: sms = -132: must be a number from 1 to 1024"),
        ("sms", "131.5", "my.toml: sms = 131.5: must be a whole number from 1 to 1024"),
        ("sms", "true", "my.toml: sms = True: must be a number from 1 to 1024"),
        ("boost_clock_hz", "nan", "my.toml: boost_clock_hz = nan: must be a number from 1e+08 to 1e+10"),
        ("boost_clock_hz", "inf", "my.toml: boost_clock_hz = inf: must be a number from 1e+08 to 1e+10"),
        ("boost_clock_hz", '"1.98 GHz"', "my.toml: boost_clock_hz = '1.98 GHz': must be a number from 1e+08 to 1e+10"),
        ("boost_clock_hz", "[1.98e9]", "my.toml: boost_clock_hz = [1980000000.0]: must be a number"),
        (
            "tensor_clock_hz",
            "1.99e9",
            "my.toml: tensor_clock_hz = 1.99e+09: must be at most tensor_boost_clock_hz = 1.798e+09",
        ),
        ("hbm_read_bytes_per_s", "4.9e12", "hbm_read_bytes_per_s = 4.9e+12: must be at most hbm_peak_bytes_per_s"),
        ("sector_bytes", "64", "my.toml: sector_bytes = 64: must be a number from 32 to 32"),
    ],
)
def test_non_physical_value_is_named_with_its_range(key: str, value: str, expected: str) -> None:
    """The message names file, key, value and allowed range."""
    assert expected in message(with_line(key, f'{key} = {{ value = {value}, kind = "measured", source = "x" }}'))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('sms = { value = 132, kind = "guess", source = "x" }', "my.toml: sms: kind = 'guess': must be one of"),
        ('sms = { value = 132, kind = [], source = "x" }', "my.toml: sms: kind = []: must be one of"),
        ('sms = { value = 132, kind = "measured", source = " " }', "my.toml: sms: source is empty"),
        ('sms = { value = 132, kind = "measured", source = 7 }', "my.toml: sms: source is empty"),
        ('sms = { value = 132, kind = "measured" }', "my.toml: sms: must be { value = ..., kind = ..., source = ... }"),
        ("sms = 132", "my.toml: sms: must be { value = ..., kind = ..., source = ... }"),
        ("sms = { value = 132", "my.toml: is not TOML: "),
        (
            'sms = { value = 132, kind = "measured", source = "\\u001b[2J" }',
            "my.toml: sms: source holds the control character '\\x1b'",
        ),
    ],
)
def test_incomplete_entry_is_named(line: str, expected: str) -> None:
    """A number comes with kind and source, or not at all."""
    assert expected in message(with_line("sms", line))


def test_unknown_device_lists_the_known_ones() -> None:
    """A misspelt name is answered with the catalogue; a missing file with its path."""
    with pytest.raises(ValueError, match=r"device 'h2000' is unknown: did you mean h200, h20, b200"):
        load_device("h2000")
    with pytest.raises(ValueError, match=r"nowhere/my\.toml: no such file"):
        load_device("nowhere/my.toml")


def test_path_loads_like_the_catalogue(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """`--device my.toml` reads any file; an edited copy of a catalogue file differs only where it was edited."""
    path = tmp_path / "my.toml"
    path.write_text(H200.replace("value = 62914560", "value = 31457280"), encoding="utf-8")
    assert load_device(str(path)) == dataclasses.replace(load_device("h200"), l2_bytes=31457280)


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA A40", "a40"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40", None),
        ("NVIDIA L20", "l20"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("NVIDIA GB10", "gb10"),
        ("NVIDIA GeForce RTX 3090", "rtx-3090"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 5090", "rtx-5090"),
        ("Tesla T4", None),
        ("NVIDIA RTX A4000", None),
    ],
)
def test_a_product_is_found_by_what_its_driver_calls_it(product: str, name: str | None) -> None:
    """Each of the catalogue, the longer name before the shorter; others are not taken for one of them."""
    assert device_of_product(product) == name


def test_a_product_is_a_text() -> None:
    """A number there is refused; a file of one's own may leave it out."""
    assert "my.toml: key 'product' is no text" in message(with_line("product", "product = 200"))
    assert parse_device(with_line("product", ""), "my.toml").product == ""


def test_override_sets_numbers_and_says_so() -> None:
    """A what-if takes quantities as a person types them, in order, and its provenance is `set`."""
    h200 = load_device("h200")
    device = override(h200, ["l2_bytes=60MiB", "hbm_read_bytes_per_s=4TB/s", "sms=66", "sms=1_00"])
    assert (device.l2_bytes, device.hbm_read_bytes_per_s, device.sms) == (62914560, 4e12, 100)
    assert isinstance(device.l2_bytes, int)
    assert device.provenance["sms"] == Provenance("set", "--set")
    assert device.provenance["power_limit_w"] == h200.provenance["power_limit_w"]
    assert h200.sms == 132
    assert override(h200, []) == h200


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("l2_byte=1", "--set 'l2_byte=1': key 'l2_byte' is unknown: did you mean l2_bytes, "),
        ("name=x", "--set 'name=x': key 'name' is unknown; `tilesight devices h200 --all` lists all"),
        ("l2_bytes", "--set 'l2_bytes': must be key=value"),
        ("l2_bytes=large", "--set l2_bytes: 'large' is no number such as 62914560, 60MiB"),
        ("l2_bytes=60 apples", "--set l2_bytes: '60 apples' is no number"),
        ("l2_bytes=0", "--set l2_bytes: l2_bytes = 0: must be a number from 65536"),
        ("sms=1e400", "--set sms: sms = inf: must be a number from 1 to 1024"),
        ("sms=1.5", "--set sms: sms = 1.5: must be a whole number from 1 to 1024"),
        ("power_limit_w=1e400", "--set power_limit_w: power_limit_w = inf: must be a number from 1 to 10000"),
        (
            "boost_clock_hz=1GHz",
            "--set boost_clock_hz: tensor_boost_clock_hz = 1.798e+09: must be at most boost_clock_hz",
        ),
    ],
)
def test_override_names_what_is_wrong(setting: str, expected: str) -> None:
    """The message names the setting, the value and what is allowed."""
    with pytest.raises(ValueError) as caught:
        override(load_device("h200"), [setting])
    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


def parses_or_says_why(text: str) -> None:
    """Either a device comes out, or a ValueError with one line that begins with the file."""
    try:
        assert isinstance(parse_device(text, "my.toml"), Device)
    except ValueError as error:
        assert str(error).startswith("my.toml: ")
        assert len(str(error).splitlines()) == 1


SCALARS = st.one_of(
    st.sampled_from(["true", "nan", "inf", "-inf", "''", '"x"', "[]", "{}", "[[", "2026-13-45", "1979-05-27"]),
    st.sampled_from(["0x" + "f" * 4000, "1" + "0" * 5000, "-0", "1e400", "[" * 3000, "{ a = " * 3000, '"\\u2028"']),
    st.integers().map(str),
    st.floats().map(str),
    st.text(max_size=12).map(lambda text: '"' + text + '"'),
)
LINES = H200.splitlines()


@st.composite
def mutated_files(draw: st.DrawFn) -> str:
    """The H200 file after one to three accidents: a line lost or doubled, a value or any piece of text replaced."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        line = lines[place]
        accident = draw(st.sampled_from(["lose", "double", "value", "kind", "entry", "splice"]))
        if accident == "lose":
            line = ""
        elif accident == "double":
            line = f"{line}\n{line}"
        elif accident == "splice":
            start = draw(st.integers(0, len(line)))
            line = line[:start] + draw(st.text(max_size=8)) + line[draw(st.integers(start, len(line))) :]
        else:
            pattern = {"value": r"value = [^,]*", "kind": r'kind = "\w*"', "entry": r"(?<= = )\{.*\}"}[accident]
            prefix = "" if accident == "entry" else f"{accident} = "
            scalar = draw(SCALARS)
            line = re.sub(pattern, lambda _, new=prefix + scalar: new, line, count=1)  # type: ignore[misc]
        lines[place] = line
    return "\n".join(lines)


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_text_parses_or_says_why(text: str) -> None:
    """No text, however odd, makes anything but a one-line ValueError."""
    parses_or_says_why(text)


@settings(max_examples=400, deadline=None)
@given(mutated_files())
def test_any_damaged_file_parses_or_says_why(text: str) -> None:
    """A catalogue file with a few accidents still gives a device or one line about the mistake."""
    parses_or_says_why(text)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([item.name for item in number_fields()]), st.text() | (st.floats() | st.integers()).map(str))
def test_any_setting_applies_or_says_why(key: str, value: str) -> None:
    """A what-if changes one number, or gives a one-line ValueError that begins with --set."""
    try:
        assert isinstance(override(load_device("h200"), [f"{key}={value}"]), Device)
    except ValueError as error:
        assert str(error).startswith("--set ")
        assert len(str(error).splitlines()) == 1
