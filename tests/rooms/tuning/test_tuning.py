"""What tuning says of made-up times: ranks, ties, the verdict, and the forms that Triton reads."""

import json
from dataclasses import replace

import pytest
from support.made_rows import row_of
from tilesight.simulator.prediction.ceiling import Ceiling, TensorBytes
from tilesight.simulator.report.page import Made

from tilesight.tuning import formats
from tilesight.tuning.html import tuning_html
from tilesight.tuning.report import remarks, tuning_text
from tilesight.tuning.tuning import Configured, TunedLaunch, Tuning, ranked


def launch_of(times_s: list[float | None], default: int = 0, **more: object) -> TunedLaunch:
    """A launch whose configurations take these times, BLOCK being their place."""
    configured = [
        Configured(values={"BLOCK": place, "num_warps": 4}, row=row_of(time_s, f"BLOCK: {place}"))
        for place, time_s in enumerate(times_s)
    ]
    return TunedLaunch(
        kernel="k", shape={}, key={}, configured=ranked(configured), default=configured[default].values, **more
    )  # type: ignore[arg-type]


def test_the_fastest_comes_first_and_of_equal_times_the_one_named_first() -> None:
    """Also where times differ by less than hosts' arithmetic: a choice is the same on every machine."""
    launch = launch_of([3e-6, 1e-6, None, 1e-6 * (1 - 1e-7), 2e-6])
    assert [item.values["BLOCK"] for item in launch.configured] == [1, 3, 4, 0, 2]
    assert launch.best and launch.best.values["BLOCK"] == 1


@pytest.mark.parametrize(
    "times_s, default, begins",
    [
        ([2e-6, 1e-6], 0, "the fastest takes 1.00 us, what runs untuned 2.00 us: 2.00x"),
        ([1.02e-6, 1e-6], 0, "not worth tuning: the fastest gains 2.0% over what runs untuned, within 3%"),
        ([1e-6, 1.5e-6], 0, "what runs untuned is the fastest: nothing is gained by tuning"),
        ([None, 1e-6], 0, "what runs untuned (BLOCK 0, num_warps 4) is not predicted"),
        ([1e-6, None], 0, "nothing was compared: 1 of 2 configurations is refused"),
        ([1e-6, None, None], 0, "nothing was compared: 2 of 3 configurations are refused"),
        ([None, None], 0, "none of its configurations is predicted"),
    ],
)
def test_the_verdict_says_whether_tuning_is_worth_it(times_s: list[float | None], default: int, begins: str) -> None:
    """Gain, none, within the band, or not known."""
    assert launch_of(times_s, default).verdict == begins


def test_configurations_within_three_percent_are_alike() -> None:
    """2.9 % are, 3.1 % are not."""
    launch = launch_of([1e-6, 1.029e-6, 1.031e-6])
    assert launch.alike == 2
    assert any("(2 of 3): predictions do not tell them apart" in line for line in remarks(launch, 10))


def test_what_is_refused_is_told_once_for_each_reason_with_one_that_is() -> None:
    """Hundreds may not fit for the same reason."""
    launch = launch_of([1e-6, None, None, None])
    needs = ["kernel k: needs 12,288 B", "kernel k: needs 1.5 MiB", "line 7: why not"]
    refused = [
        replace(item, row=row_of(None, refused=why)) for item, why in zip(launch.configured[1:], needs, strict=True)
    ]
    lines = remarks(replace(launch, configured=(launch.configured[0], *refused)), 10)
    assert [line for line in lines if line.startswith("Refused")] == [
        "Refused  2, such as BLOCK 1: needs 12,288 B",
        "Refused  BLOCK 3: line 7: why not",
    ]


def test_where_every_alternative_is_refused_nothing_is_answered() -> None:
    """The one that is left is the fastest of nothing; a launch with one configuration has none to compare."""
    assert not Tuning(target="t", device="h200", launches=(launch_of([1e-6, None]),)).complete
    assert Tuning(target="t", device="h200", launches=(launch_of([1e-6]),)).complete


@pytest.mark.parametrize(("loaded_bytes", "doubted"), [(1 << 30, False), (1 << 20, False), (1 << 17, True), (0, True)])
def test_a_configuration_that_reads_less_is_doubted(loaded_bytes: int, doubted: bool) -> None:
    """A block that is a row's length computes something else where it is smaller; reading again is no less."""

    def ceiling_of(loaded: int) -> Ceiling:
        tensor = TensorBytes(name="X", size_bytes=1 << 20, loaded_bytes=loaded, stored_bytes=0)
        peaks = dict.fromkeys((f"{name}_bytes_per_s" for name in ("hbm", "l2", "fabric", "fill", "smem")), 1.0)
        return Ceiling(
            compulsory_read_bytes=0, compulsory_write_bytes=0, flop=0, flop_per_s=0.0, tensors=(tensor,), **peaks
        )

    launch = launch_of([2e-6, 1e-6])
    ceilings = [ceiling_of(loaded_bytes), ceiling_of(4 << 20)]  # the fastest comes first
    configured = [
        replace(item, row=replace(item.row, ceiling=ceiling))
        for item, ceiling in zip(launch.configured, ceilings, strict=True)
    ]
    launch = replace(launch, configured=tuple(configured))
    assert launch.verdict.startswith("the fastest reads") is doubted
    doubts = [line for line in remarks(launch, 10) if line.startswith("Doubt")]
    assert bool(doubts) is doubted and all("BLOCK 1: reads" in line and "k.BLOCK" in line for line in doubts)


def test_how_many_are_missing_is_said_first_in_every_form() -> None:
    """A refusal of the device is an answer; one of the program, or of its time limit, is not."""
    launch = launch_of([1e-6, 2e-6, None])
    assert Tuning(target="t", device="h200", launches=(launch,)).complete
    failing = replace(launch.configured[2], row=replace(launch.configured[2].row, failed=True))
    tuning = Tuning(
        target="t", device="h200", launches=(replace(launch, configured=(*launch.configured[:2], failing)),)
    )
    first = "Incomplete: 1 of 3 configurations are missing: "
    assert not tuning.complete and tuning.to_dict()["missing"] == 1
    assert str(tuning).startswith(first)
    assert tuning.to_triton_configs().splitlines()[1].startswith(f"# {first}")
    made = Made(command="", version="", date="")
    assert tuning_html(tuning, made).index(first) < tuning_html(tuning, made).index("<h2>")


def test_slower_ones_that_are_not_shown_are_counted() -> None:
    """And stand in JSON all the same."""
    tuning = Tuning(target="f.py:run", device="h200", launches=(launch_of([1e-6, 2e-6, 3e-6]),))
    text = tuning_text(tuning, 1, 120)
    assert "Left out 2 slower ones" in text and "3.00x" not in text
    assert len(tuning.to_dict()["launches"][0]["configurations"]) == 3


def test_rows_of_a_file_have_the_same_columns_whatever_was_refused() -> None:
    """What is not known is empty."""
    rows = Tuning(target="t", device="h200", launches=(launch_of([1e-6, None]),)).flat_rows()
    assert list(rows[0]) == list(rows[1])
    assert [row["rank"] for row in rows] == [1, None]
    assert rows[1]["refused"] == "why not" and rows[1]["time_s"] is None


def test_lines_for_triton_hold_what_differs_from_its_defaults() -> None:
    """Texts in quotes."""
    line = formats.config_line({"BLOCK": 64, "kind": "a", "num_warps": 4, "num_stages": 5, "maxnreg": 128})
    assert line == 'triton.Config({"BLOCK": 64, "kind": \'a\'}, num_stages=5, maxnreg=128)'


def test_a_configuration_that_is_best_at_two_shapes_is_one_line() -> None:
    """With both said behind it."""
    launches = (launch_of([1e-6, 2e-6]), launch_of([3e-6, 4e-6]))
    lines = formats.triton_configs(Tuning(target="t", device="h200", launches=launches), 1).splitlines()
    assert [line for line in lines if "triton.Config" in line] == [
        '    triton.Config({"BLOCK": 0}),  # 1. of 2: 1.00 us; 1. of 2: 3.00 us'
    ]


def test_the_file_of_tritons_cache_holds_milliseconds_and_its_own_key() -> None:
    """What was refused is not in it."""
    launch = launch_of([2e-6, 1e-6, None], cache="ABC/k.autotune.json", cache_key=(512, "torch.float16"))
    ((path, text),) = formats.triton_cache(launch).items()
    assert path == "ABC/k.autotune.json"
    kept = json.loads(text)
    assert kept["key"] == [512, "torch.float16"]
    assert [(config["kwargs"], times) for config, times in kept["configs_timings"]] == [
        ({"BLOCK": 1}, [pytest.approx(1e-3)] * 3),
        ({"BLOCK": 0}, [pytest.approx(2e-3)] * 3),
    ]
    assert formats.triton_cache(launch_of([1e-6])) == {}
