"""Units: capacities in powers of 1024, traffic in powers of 1000, and text that can be read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator import units

# What three printed digits can lose at worst: 1.005 may print as 1.00 or 1.01.
ROUNDING = 0.005


def test_an_h200_l2_is_60_mib_and_62_9_mb() -> None:
    """One number, two conventions: capacity against traffic."""
    assert units.capacity(62914560) == "60.0 MiB"
    assert units.traffic(62914560) == "62.9 MB"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (units.capacity(16 * 2**30), "16.0 GiB"),
        (units.capacity(512), "512 B"),
        (units.traffic(0), "0 B"),
        (units.traffic(999), "999 B"),
        (units.traffic(1000), "1.00 kB"),
        (units.traffic(8.59e9), "8.59 GB"),
        (units.traffic(-2e6), "-2.00 MB"),
        (units.bandwidth(4.8e12), "4.80 TB/s"),
        (units.rate(762e12), "762 TFLOP/s"),
        (units.count(137438953472), "137 G"),
        (units.count(12), "12"),
        (units.clock(1.98e9), "1.98 GHz"),
        (units.duration(2.5), "2.50 s"),
        (units.duration(1.46e-3), "1.46 ms"),
        (units.duration(48e-6), "48.0 us"),
        (units.duration(870e-9), "870 ns"),
        (units.duration(0), "0 ns"),
    ],
)
def test_three_digits_and_a_prefix_are_printed(text: str, printed: str) -> None:
    """Whole numbers below the first prefix keep no decimals."""
    assert text == printed


@pytest.mark.parametrize(("value", "printed"), [(999.4e9, "999 GB"), (999.6e9, "1.00 TB"), (9.996e9, "10.0 GB")])
def test_rounding_never_prints_a_thousand_of_a_prefix(value: float, printed: str) -> None:
    """The next prefix takes over where four digits would be printed."""
    assert units.traffic(value) == printed


@pytest.mark.parametrize(("value", "printed"), [(0.9996, "1.00 s"), (0.9994, "999 ms"), (0.9996e-6, "1.00 us")])
def test_rounding_never_prints_a_thousand_milliseconds(value: float, printed: str) -> None:
    """The same for times."""
    assert units.duration(value) == printed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("62914560", 62914560),
        ("60MiB", 62914560),
        ("60 MiB", 62914560),
        ("4.8TB/s", 4.8e12),
        ("1.98GHz", 1.98e9),
        ("6e-6", 6e-6),
        ("6e-6s", 6e-6),
        ("700W", 700),
        ("989 TFLOP/s", 989e12),
        ("62_914_560", 62914560),
        (" 1k ", 1000),
        ("1Ki", 1024),
        ("-3", -3),
        ("+2.", 2),
    ],
)
def test_people_may_type_prefix_and_unit(text: str, value: float) -> None:
    """As on the command line, `--set l2_bytes=60MiB`."""
    assert units.parse_quantity(text) == pytest.approx(value)


@pytest.mark.parametrize(
    "text", ["", "MiB", "60 mib", "60kiB", "6 0", "1.2.3", "4.8 TB/h", "nan", "inf", "0x10", "sixty", ".5"]
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    """The message repeats the text and shows what is accepted."""
    with pytest.raises(ValueError, match="is no number such as 62914560, 60MiB"):
        units.parse_quantity(text)


@given(st.floats(1, 1e17))
def test_what_is_printed_reads_back(value: float) -> None:
    """To three digits, in either convention, with the unit in place."""
    for text in (units.capacity(value), units.traffic(value), units.bandwidth(value), units.rate(value)):
        assert units.parse_quantity(text) == pytest.approx(value, rel=ROUNDING)


@given(st.floats(1, 1e17), st.floats(1, 1e17))
def test_larger_values_never_print_smaller(left: float, right: float) -> None:
    """Rounding and change of prefix keep the order."""
    low, high = sorted((left, right))
    for printed in (units.capacity, units.traffic):
        assert units.parse_quantity(printed(low)) <= units.parse_quantity(printed(high))


@given(st.floats(1e-7, 1e3))
def test_a_time_that_is_printed_reads_back(value: float) -> None:
    """To three digits, with its unit."""
    assert units.parse_duration(units.duration(value)) == pytest.approx(value, rel=ROUNDING)


@pytest.mark.parametrize("text", ["", "120", "us", "120 kB", "120 min", "4.8TB/s", "12 Ms", "1h"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """A number without its unit, too."""
    with pytest.raises(ValueError, match=r"is no time such as 120us, 1\.5ms or 2s"):
        units.parse_duration(text)
