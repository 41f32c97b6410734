"""What people and programs read: JSON, tables, words, timeline. Pictures and pages are in test_report_pictures."""

import json
import re
from dataclasses import replace

import pytest
from support.made_up import A_PROBLEM, SOME_TRAFFIC, a_launch, a_prediction
from tilesight.simulator.device.device import catalogue, load_device, number_fields
from tilesight.simulator.device.what_if import override
from tilesight.simulator.display import render
from tilesight.simulator.display.render import Column, config_text, table, to_csv, to_json
from tilesight.simulator.explore.candidate import Candidate
from tilesight.simulator.explore.explore import Exploration, explore
from tilesight.simulator.explore.lengths import compare
from tilesight.simulator.explore.ranking import ranking_columns, ranking_rows
from tilesight.simulator.prediction.prediction import LaunchPrediction
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.report.devices import MAIN, device_dict, device_text, devices_dict, devices_text, unit
from tilesight.simulator.report.explore import explore_text
from tilesight.simulator.report.lengths import compare_rows, compare_text
from tilesight.simulator.report.simulate import simulate_text
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.sm.step_cost import PIPES

SMALL = AttentionProblem(batch=1, heads=2, seqlen_q=200, seqlen_k=200, head_dim=32)


@pytest.fixture(scope="module")
def explored() -> Exploration:
    """Both block sizes free, on an H200; the largest tiles of fp32 do not fit."""
    problem = replace(SMALL, dtype="fp32", head_dim=128)
    return explore(problem, schedule=("flash2", "naive"), num_warps=4, num_stages=(2, 4))


def test_json_refuses_what_is_no_number() -> None:
    """A reader would choke on NaN."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json({"time_s": float("nan")})


def test_json_keeps_the_order_of_keys() -> None:
    """Their order is meant: what identifies comes first."""
    assert list(json.loads(to_json({"b": 1, "a": 2}))) == ["b", "a"]


def test_csv_leaves_a_cell_empty_for_none() -> None:
    """Spreadsheets read that as missing."""
    assert to_csv([{"a": 1, "b": None}]) == "a,b\n1,\n"


def test_a_wide_table_loses_its_least_important_columns_and_cuts_none() -> None:
    """A number cut short would be a wrong number."""
    columns = [Column(title=name, cells=["x" * 20], rank=rank) for name, rank in (("a", 0), ("b", 2), ("c", 1))]
    assert table(columns, 80).split("\n")[0].split() == ["a", "b", "c"]
    assert table(columns, 50).split("\n")[0].split() == ["a", "c"]
    assert table(columns, 10).split("\n")[-1].strip() == "x" * 20


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_the_legend_explains_the_columns_that_are_shown(explored: Exploration, width: int) -> None:
    """And no column that did not fit."""
    text = explore_text(explored, width=width)
    head = next(line for line in text.splitlines() if line.lstrip().startswith("#")).split()
    for title in ("P", "band", "~"):
        assert (f"\n{title}: " in text) == (title in head), title


def test_the_peak_of_the_catalogue_is_named() -> None:
    """Vendors take a clock of their choice: the H200's 990 TFLOP/s are of another than it has."""
    text = devices_text({"h200": load_device("h200")}, 200)
    assert "fp16 at boost" in text.splitlines()[0] and "972 TFLOP/s" in text
    assert "at tensor_boost_clock_hz; vendors take other clocks." in text


def test_cells_are_plain_text() -> None:
    """Brackets in a device's name are no markup."""
    assert "[bold]" in table([Column(title="t", cells=["[bold]x[/bold]"])], 40)


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (A_PROBLEM, "B=2 H=4 M=N=1024 D=64 fp16 no mask"),
        (replace(A_PROBLEM, kv_heads=2, causal=True), "B=2 H=4 G=2 M=N=1024 D=64 fp16 causal"),
        (replace(A_PROBLEM, seqlen_q=1, dropout=0.1), "B=2 H=4 M=1 N=1024 D=64 fp16 no mask dropout 0.1"),
    ],
)
def test_a_problem_in_one_line(problem: AttentionProblem, text: str) -> None:
    """Only what differs from the plain case is added."""
    assert problem.text == text


def test_a_configuration_in_words() -> None:
    """A grid that is not persistent goes without saying."""
    config = {"block_m": 128, "block_n": 64, "num_warps": 1, "num_stages": 2, "persistent": 0, "cta_order": "m-fast"}
    assert config_text(config) == "128 x 64, 1 warp, 2 stages, cta order m-fast"


def test_every_bottleneck_has_a_name_in_words() -> None:
    """Whichever the engine finds."""
    assert {*PIPES, "l2", "fabric", "hbm", "wait", "tail", "launch"} == {*render.RESOURCES, "alu"}


@pytest.mark.parametrize(("fraction", "text"), [(0, "0 %"), (0.004, "0.4 %"), (0.52, "52 %"), (1, "100 %")])
def test_shares_as_text(fraction: float, text: str) -> None:
    """Small shares keep a decimal."""
    assert render.percent(fraction) == text


@pytest.mark.parametrize(("fraction", "filled"), [(-1, 0), (0, 0), (0.5, 5), (1, 10), (1.7, 10)])
def test_bars_stay_within_their_length(fraction: float, filled: int) -> None:
    """Whatever the share."""
    assert render.bar(fraction, 10) == "█" * filled + "░" * (10 - filled)


def test_a_prediction_is_explained_figure_by_figure() -> None:
    """Within 120 columns."""
    text = simulate_text(a_prediction(), load_device("h200"))
    for figure in (
        "3.00 MB read",
        "1.00 MB written",
        "20.0 MB read by SMs",
        "85 % hits",
        "4.00 MB between",
        "21.0 MB",
    ):
        assert figure in text
    for line in (
        "2.00 GFLOP of matrix",
        "8.00 M exponentials",
        "2 CTAs of 4 warps per SM",
        "200 registers",
        "48.0 KiB",
    ):
        assert line in text
    assert all(len(line) <= 120 for line in text.splitlines())


def test_several_launches_have_a_total_of_their_own() -> None:
    """With the bytes of all of them."""
    text = simulate_text(a_prediction(a_launch(), a_launch()), load_device("h200"))
    assert "Launch 2 of 2" in text
    assert "Total of 2 launches" in text
    assert "6.00 MB read" in text


def test_a_device_of_one_partition_has_no_fabric_line() -> None:
    """There is nothing to say about it."""
    assert "Fabric" not in simulate_text(a_prediction(), load_device("rtx-4090"))


def test_what_does_not_fit_into_memory_says_so() -> None:
    """Loudly."""
    assert "DOES NOT FIT" in simulate_text(a_prediction(fits=False, peak_memory_bytes=1 << 40), load_device("h200"))


def test_a_clock_that_power_lowers_is_told() -> None:
    """Where repeating the launch makes a difference, and nowhere else."""
    launch = a_launch()
    shown = [
        "clock when repeated: 1.40 GHz" in simulate_text(a_prediction(repeated), load_device("h200"))
        for repeated in (launch, replace(launch, sustained_clock_hz=launch.clock_hz))
    ]
    assert shown == [True, False]


def test_spills_are_told() -> None:
    """They cost time, and make the estimate uncertain."""
    assert "64 B per thread spilled" in simulate_text(a_prediction(a_launch(spilled_bytes=64)), load_device("h200"))


def test_the_ranking_fits_120_columns_and_names_the_best(explored: Exploration) -> None:
    """The table, and the line below it."""
    lines = explore_text(explored, top=5).splitlines()
    table_lines = lines[2:9]
    assert all(len(line) <= 120 for line in table_lines)
    best = explored.ranked[0]
    assert f"Best: {best.schedule} {best.config.block_m} x {best.config.block_n}" in "\n".join(lines)


def headings(exploration: Exploration, width: int) -> str:
    """The line of the table that names its columns."""
    return next(
        line for line in explore_text(exploration, top=5, width=width).splitlines() if line.lstrip().startswith("#")
    )


def test_a_narrow_ranking_keeps_rates_and_loses_bytes_inside_the_gpu_first(explored: Exploration) -> None:
    """`L2 read` goes first, then `SRAM fill`; `vs best` and `TFLOP/s` last."""
    widths = range(40, 200)
    least = {
        title: min(width for width in widths if title in headings(explored, width))
        for title in ("L2 read", "SRAM fill", "occup.", "CTAs/SM", "HBM", "vs best", "TFLOP/s")
    }
    assert list(least) == sorted(least, key=lambda title: -least[title])
    assert least["vs best"] == least["TFLOP/s"] < least["HBM"]


def ranking_of(*launches: LaunchPrediction) -> str:
    """A table of configurations that were made up."""
    exploration = Exploration(
        problem=A_PROBLEM,
        device=load_device("h200"),
        device_name="h200",
        candidates=tuple(
            Candidate(schedule="flash2", config=Config(), options=(), prediction=a_prediction(launch))
            for launch in launches
        ),
        baseline=None,
        left_out={},
    )
    return render.table(ranking_columns(exploration.candidates, exploration.candidates), 50)


def test_spills_are_shown_wherever_a_row_has_some() -> None:
    """However narrow the table; no row, no column."""
    assert "spill" not in ranking_of(a_launch(), a_launch())
    heading, _, none, some = ranking_of(a_launch(), a_launch(spilled_bytes=64)).splitlines()
    assert "spill" in heading
    assert " 0 B " in none
    assert " 64 B " in some


def test_crowded_l2_is_a_word_on_the_row() -> None:
    """Where any row has it."""
    assert "K, V in L2" not in ranking_of(a_launch())
    assert "beyond" in ranking_of(a_launch(), a_launch(l2_fit="beyond")).splitlines()[-1]


def test_what_binds_is_told_with_its_share() -> None:
    """In the table and in the text of one configuration."""
    assert "tensor 60 %" in ranking_of(a_launch())
    assert "Bound by     wait 60 %: exposed latency; also tail" in simulate_text(
        a_prediction(a_launch(bottleneck="wait")), load_device("h200")
    )


def test_the_ranking_fits_80_columns_too(explored: Exploration) -> None:
    """Fewer columns, none of them cut."""
    assert all(len(line) <= 80 for line in explore_text(explored, top=5, width=80).splitlines()[2:9])


def test_what_does_not_fit_is_counted_with_its_reason(explored: Exploration) -> None:
    """And an example with need and limit."""
    misfits = len(explored.candidates) - len(explored.ranked)
    assert misfits > 0
    assert f"{misfits} of {len(explored.candidates)} configurations do not fit" in explore_text(explored)
    assert "shared memory: a CTA needs" in explore_text(explored)


def test_nothing_fits_is_a_text_too() -> None:
    """No table, no best, no error."""
    exploration = explore(SMALL, smem_bytes=1 << 30, block_m=64, block_n=64)
    assert "0 fit" in explore_text(exploration)


def test_csv_holds_every_candidate(explored: Exploration) -> None:
    """All with the same columns."""
    rows = ranking_rows(explored.device_name, explored.candidates)
    assert [row["rank"] for row in rows] == list(range(1, len(explored.candidates) + 1))
    assert to_csv(rows).count("\n") == len(rows) + 1
    assert len({tuple(row) for row in rows}) == 1


def test_lengths_are_rows_and_schedules_are_columns() -> None:
    """And below, where memory runs out."""
    scaling = compare(SMALL, (128, 256), schedule=("flash2", "naive"))
    text = compare_text(scaling)
    assert next(line.split() for line in text.splitlines() if line.split()[:1] == ["N"]) == ["N", "flash2", "naive"]
    assert "naive      from N = " in text
    assert len(compare_rows(scaling)) == 4


def test_out_of_memory_shows_in_place_of_the_time() -> None:
    """Not as an empty cell."""
    scaling = compare(replace(SMALL, batch=64), (32768,), schedule=("naive",))
    assert "out of memory" in compare_text(scaling)


def test_every_number_of_a_device_is_shown_with_kind_and_source() -> None:
    """As text and as JSON."""
    device = load_device("h200")
    text, document = device_text("h200", device, 120, every=True), device_dict("h200", device)
    for key, origin in device.provenance.items():
        assert f"\n{key} " in text
        assert document["numbers"][key]["kind"] == origin.kind  # type: ignore[index]
        assert document["numbers"][key]["source"] == origin.source  # type: ignore[index]
    for key, origin in device.sm.provenance.items():
        assert f"\n{key} " in text
        assert document["sm"][key]["source"] == origin.source  # type: ignore[index]
        assert document["sm"][key]["value"] == getattr(device.sm, key)  # type: ignore[index]
    for key, number in device.torch_kernels.numbers().items():
        assert re.search(rf"^{key} +\S.*{re.escape(number.doc)}", text, re.MULTILINE)
        assert document["torch_kernels"][key]["source"] == number.origin.source  # type: ignore[index]
    assert {"Its SM, machine code:", "Kernels of torch and its libraries, softmax:"} < set(text.splitlines())


@pytest.mark.parametrize("name", catalogue())
def test_the_main_numbers_of_a_device_are_a_page(name: str) -> None:
    """Each in a line with its kind, what a what-if has set among them; and where the others are."""
    device = override(load_device(name), ["hbm_channels=8"])
    lines = device_text(name, device, 120).splitlines()
    assert len(lines) <= 43 and max(map(len, lines)) <= 124
    keys = [line.partition(" ")[0] for line in lines[lines.index("") + 1 : -2]]
    assert set(keys) <= {*MAIN, "hbm_channels"} and len(keys) >= 24
    assert any(line.startswith("hbm_channels") and " set " in line for line in lines)
    whole = len(device_dict(name, device)["numbers"])  # type: ignore[arg-type]
    assert lines[-1].startswith(f"{whole - len(keys)} more numbers, ") and lines[-1].endswith("--all, or --json.")


def test_every_key_with_a_suffix_has_a_unit() -> None:
    """Plain counts have none."""
    units = {item.name: unit(item.name) for item in number_fields()}
    assert units["l2_bytes_per_s"] == "B/s"
    assert units["l2_bytes"] == "B"
    assert units["mma_fp16_flop_per_cycle"] == "FLOP/cycle"
    assert units["hbm_latency_s"] == "s"
    assert {key for key, text in units.items() if not text} == {
        "sms",
        "registers_per_sm",
        "max_registers_per_thread",
        "max_warps_per_sm",
        "max_ctas_per_sm",
        "max_threads_per_cta",
        "l2_partitions",
        "l2_slices",
        "coalescer_sms",
        "l2_dirty_fraction",
        "l2_set_spread",
        "gpc_clock_spread",
        "hbm_channels",
        "hbm_mixed_fraction",
        "hbm_part_line_fraction",
        "hbm_single_line_fraction",
    }


def test_the_catalogue_fits_120_columns() -> None:
    """One row a device."""
    devices = {name: load_device(name) for name in ("h200", "rtx-4090")}
    assert all(len(line) <= 120 for line in devices_text(devices, 120).splitlines())
    assert [entry["device"] for entry in devices_dict(devices)["devices"]] == ["h200", "rtx-4090"]  # type: ignore[index,union-attr]


def test_a_launch_without_reads_still_has_a_text() -> None:
    """No division by zero."""
    idle = a_launch(traffic=replace(SOME_TRAFFIC, l2_read_bytes=0, l2_hit_bytes=0, hbm_read_bytes=0))
    assert "0 B read by SMs" in simulate_text(a_prediction(idle), load_device("h200"))
