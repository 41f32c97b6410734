"""From what ncu prints to our fields: which metrics, which units, which launches."""

from pathlib import Path

import pytest
from support.fake.ncu import QUERY, UNITS, VALUES, printed
from tilesight.validate.counters.ncu_output import NcuFailed, offered, parse
from tilesight.validate.counters.table import COUNTERS, fields_of, metric_names, resolve


def test_metrics_are_found_in_the_list_that_ncu_prints() -> None:
    """The base names of all metrics, and nothing of the heading or the descriptions."""
    names = offered(QUERY)
    assert "l1tex__m_xbar2l1tex_read_bytes" in names
    assert len(names) == QUERY.count("Counter")


def test_metrics_are_found_in_csv_as_well() -> None:
    """Quoted names, as newer versions print them, are the same names."""
    assert offered('"Metric Name","Metric Type"\n"dram__bytes_read","Counter"\n') == {"dram__bytes_read"}


def test_each_field_takes_the_first_alternative_on_offer() -> None:
    """Where the usual name is missing the next one that is there is taken."""
    assert resolve({"dram__bytes_read", "dram__bytes_op_read"})["hbm_read_bytes"] == ("dram__bytes_read.sum",)
    assert resolve({"dram__bytes_op_read"})["hbm_read_bytes"] == ("dram__bytes_op_read.sum",)


def test_a_sum_of_metrics_needs_all_of_them() -> None:
    """Half of the spill traffic would look like all of it."""
    loads = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld"
    assert "spill_bytes" not in resolve({loads})
    assert len(resolve({loads, loads.replace("op_ld", "op_st")})["spill_bytes"]) == 2


def test_what_no_metric_covers_has_no_counter() -> None:
    """A GPU with one L2 partition has no fabric to count, and the report can say so."""
    metrics = resolve(offered(QUERY) - {"lts__t_sectors_srcunit_ltcfabric"})
    assert "fabric_bytes" not in metrics
    assert "hbm_read_bytes" in metrics


def test_facts_about_the_launch_are_always_on_offer() -> None:
    """ncu knows registers and shared memory without counting, and leaves them out of its list."""
    assert {"registers_per_thread", "smem_bytes_per_cta"} <= set(resolve(set()))


def test_every_metric_is_asked_for_once() -> None:
    """A name that two fields share is one counter."""
    names = metric_names({"a": ("x.sum", "y.sum"), "b": ("x.sum",)})
    assert names == ("x.sum", "y.sum")


def test_no_two_counters_fill_one_field() -> None:
    """The table has one line a field."""
    fields = [counter.field for counter in COUNTERS]
    assert len(fields) == len(set(fields))


def test_a_launch_is_read_with_its_extents_and_values() -> None:
    """Kernel, grid, block and numbers with separators, whatever stands before the table."""
    (launch,) = parse(printed(*VALUES))
    assert (launch.kernel, launch.grid, launch.num_warps) == ("flash2_kernel", (4096, 1, 1), 4)
    assert launch.metrics["dram__bytes_read.sum"] == (201_347_584, "byte")


def test_values_come_in_our_fields_and_units() -> None:
    """Sectors become bytes, nanoseconds seconds, and the two kinds of shared memory one number."""
    (launch,) = parse(printed(*VALUES))
    fields = fields_of(launch, resolve(offered(QUERY)))
    assert fields == {
        "hbm_read_bytes": 201_347_584,
        "time_s": pytest.approx(1.45872e-3),
        "registers_per_thread": 192,
        "smem_bytes_per_cta": 49_152,
        "l2_read_bytes": 86_718_648 * 32,
        "cycles": 2_611_044,
    }


@pytest.mark.parametrize(
    ("unit", "value"), [("ns", "1,458,720"), ("nsecond", "1,458,720"), ("us", "1458.72"), ("s", "0.00145872")]
)
def test_a_time_is_the_same_in_every_unit(unit: str, value: str) -> None:
    """Versions of ncu differ in the base unit of time."""
    units = tuple(unit if name == "ns" else name for name in UNITS)
    (launch,) = parse(printed(*[value if given == VALUES[1] else given for given in VALUES], units=units))
    assert fields_of(launch, resolve(offered(QUERY)))["time_s"] == pytest.approx(1.45872e-3)


def test_a_metric_without_a_value_leaves_its_field_out() -> None:
    """What could not be counted is not counted as nothing."""
    (launch,) = parse(printed("n/a", *VALUES[1:]))
    assert "hbm_read_bytes" not in fields_of(launch, resolve(offered(QUERY)))


def test_an_unknown_unit_is_refused() -> None:
    """A byte count in packets would be off by a factor that nobody knows."""
    (launch,) = parse(printed(*VALUES, units=("packet", *UNITS[1:])))
    with pytest.raises(NcuFailed, match=r"dram__bytes_read.sum has unit 'packet': hbm_read_bytes needs"):
        fields_of(launch, resolve(offered(QUERY)))


def test_a_unit_of_another_dimension_is_refused() -> None:
    """Bytes that come in nanoseconds are a mix-up of columns."""
    (launch,) = parse(printed(*VALUES, units=("ns", *UNITS[1:])))
    with pytest.raises(NcuFailed):
        fields_of(launch, resolve(offered(QUERY)))


def test_a_cell_that_is_no_number_is_refused() -> None:
    """Rather no counters than half-read ones."""
    with pytest.raises(NcuFailed, match=r"sm__cycles_elapsed.max = 'many': is no number"):
        parse(printed(*VALUES[:-1], "many"))


def test_no_table_is_refused() -> None:
    """A run in which nothing was profiled prints remarks alone."""
    with pytest.raises(NcuFailed, match="ncu printed no table of counters"):
        parse("==PROF== Connected to process 1\n==WARNING== No kernels were profiled.\n")


def test_the_page_shows_the_table() -> None:
    """Every field with the metrics of its first alternative, in order."""
    page = (Path(__file__).parents[3] / "docs" / "measuring.md").read_text("utf-8")
    for counter in COUNTERS:
        metrics = " + ".join(f"`{metric}`" for metric in counter.alternatives[0])
        assert f"| `{counter.field}` | {metrics}" in page
