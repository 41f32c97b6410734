"""The command line: what it prints where, its exit codes, its files, and its one-line errors."""

import csv
import io
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import all_schedules

import tilesight
from tilesight.cli.main import main

pytestmark = pytest.mark.usefixtures("known_answers")

SMALL = ("--batch", "1", "--heads", "2", "--seqlen", "200", "--head-dim", "32")
PINNED = ("--block-m", "32,64", "--block-n", "32", "--num-warps", "4", "--num-stages", "2")
PROMISED = """
device schedule batch heads kv-heads seqlen seqlen-q seqlen-k head-dim dtype causal block-m block-n num-warps num-stages
cta-order kv-order persistent warp-split softmax-variant l2 registers smem-bytes compiled cost set json trace
"""
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _compiled_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remark on compiling belongs to its own test."""
    monkeypatch.setattr("tilesight.simulator.engine.engine.is_compiled", lambda: True)


def _error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that bad input must give, on stderr alone."""
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert output.err.startswith("tilesight: ")
    return output.err


def test_no_command_at_all_is_shown_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    """As `-h` and `--help` show it."""
    texts = []
    for arguments in ([], ["-h"], ["--help"]):
        assert main(arguments) == 0
        texts.append(capsys.readouterr())
    assert texts[0] == texts[1] == texts[2]
    assert texts[0].err == "" and "Usage: tilesight" in texts[0].out and "explore" in texts[0].out


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    """Declared twice, the same both times."""
    assert main(["--version"]) == 0
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert capsys.readouterr().out == f"tilesight {declared}\n"


@pytest.mark.parametrize("command", ["explore", "simulate", "explain", "compare", "devices"])
def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """On stdout, with exit code 0."""
    assert main([command, "--help"]) == 0
    assert "Usage: tilesight" in capsys.readouterr().out


def test_every_promised_option_exists(capsys: pytest.CaptureFixture[str]) -> None:
    """Under the name that docs and scripts use."""
    main(["simulate", "--help"])
    text = capsys.readouterr().out
    for name in PROMISED.split():
        assert f"--{name} " in text


def test_simulate_prints_words(capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, and nothing on stderr."""
    assert main(["simulate", *SMALL]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("flash2 on h200")
    assert output.err == ""


def test_simulate_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """With the device as the user named it."""
    assert main(["simulate", *SMALL, "--json", "--schedule", "naive", "--device", "a100-sxm-80gb"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["device"], document["schedule"]) == (
        "tilesight.simulate/1",
        "a100-sxm-80gb",
        "naive",
    )
    assert len(document["launches"]) == 3


def test_the_same_call_prints_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    """No clock, no random order."""
    main(["simulate", *SMALL, "--json"])
    first = capsys.readouterr().out
    main(["simulate", *SMALL, "--json"])
    assert capsys.readouterr().out == first


def test_seqlen_sets_both_lengths_and_the_others_one(capsys: pytest.CaptureFixture[str]) -> None:
    """The more special option wins."""
    main(["simulate", *SMALL, "--seqlen-q", "16", "--json"])
    problem = json.loads(capsys.readouterr().out)["problem"]
    assert (problem["seqlen_q"], problem["seqlen_k"]) == (16, 200)


def test_given_resources_replace_the_estimates(capsys: pytest.CaptureFixture[str]) -> None:
    """And the launch says that they were given."""
    main(["simulate", *SMALL, "--registers", "128", "--smem-bytes", "1000", "--json"])
    launch = json.loads(capsys.readouterr().out)["launches"][0]
    assert (launch["registers_per_thread"], launch["smem_bytes_per_cta"], launch["resources"]) == (128, 1000, "given")


def test_what_if_changes_the_device_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """A result must not pass for one of the real device."""
    main(["simulate", *SMALL, "--set", "sms=1", "--set", "l2_bytes=1MiB", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["notes"][:2] == ["device changed by --set sms=1", "device changed by --set l2_bytes=1MiB"]
    assert document["launches"][0]["waves"] > 1


def test_a_device_can_be_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Named as the user named it."""
    file = tmp_path / "mine.toml"
    file.write_text((ROOT / "simulator" / "device" / "catalogue" / "h200.toml").read_text("utf-8"), "utf-8")
    assert main(["simulate", *SMALL, "--device", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["device"] == str(file)


@pytest.mark.parametrize(
    ("torchs", "ours"),
    [("float16", "fp16"), ("torch.bfloat16", "bf16"), ("half", "fp16"), ("float32", "fp32"), ("float8_e4m3fn", "fp8")],
)
def test_torchs_names_of_element_types_are_taken(capsys: pytest.CaptureFixture[str], torchs: str, ours: str) -> None:
    """As an answer to the same question."""
    answers = []
    for dtype in (torchs, ours):
        assert main(["simulate", *SMALL, "--dtype", dtype, "--json"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


def test_too_large_for_the_device_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """With exit code 0."""
    arguments = ["--seqlen", "4096", "--batch", "1", "--heads", "4", "--set", "hbm_bytes=256MiB", "--json"]
    assert main(["simulate", "--schedule", "naive", *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["total"]["fits"] is False


def test_explore_prints_a_ranking(capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, and nothing on stderr."""
    assert main(["explore", *SMALL, *PINNED, "--schedule", "flash2"]) == 0
    output = capsys.readouterr()
    assert "Best: flash2" in output.out
    assert output.err == ""


def test_explore_prints_ranked_objects(capsys: pytest.CaptureFixture[str]) -> None:
    """Of all schedules, where all are asked for."""
    assert main(["explore", *SMALL, *PINNED, "--json", "--schedule", "all"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "tilesight.explore/1"
    assert {"rank", "schedule", "config", "time_s", "fits", "reason", "pareto"} <= set(document["configs"][0])
    attention = {name for name, item in all_schedules().items() if item.problem is AttentionProblem}
    assert {entry["schedule"] for entry in document["configs"]} | set(document["left_out"]) == attention


def test_explore_holds_devices_against_each_other(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One ranking each, in a table, in JSON and in CSV."""
    file = tmp_path / "out.csv"
    devices = ["--device", "h200", "--device", "a100"]
    assert main(["explore", *SMALL, *PINNED, *devices, "--csv", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "h200" in printed and "a100-sxm-80gb" in printed
    rows = list(csv.DictReader(io.StringIO(file.read_text("utf-8"))))
    assert [row["device"] for row in rows] == ["h200", "h200", "a100-sxm-80gb", "a100-sxm-80gb"]
    assert main(["explore", *SMALL, *PINNED, *devices, "--json"]) == 0
    both = json.loads(capsys.readouterr().out)
    assert [entry["device"] for entry in both["devices"]] == ["h200", "a100-sxm-80gb"]
    assert main(["explore", *SMALL, *PINNED, "--device", "h200, a100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == both
    for entry in both["devices"]:
        assert main(["explore", *SMALL, *PINNED, "--device", entry["device"], "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["configs"] == entry["configs"]


def test_a_softmax_is_told_without_products_and_held_against_its_own_bounds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """No tensor cores, no Q, K and V, no naive attention; and no roofline of operations, whose axes have no zero."""
    html, plot = tmp_path / "out.html", tmp_path / "out.png"
    rows = ("--batch", "1", "--heads", "2", "--seqlen", "200")
    chosen = [*rows, "--schedule", "online_softmax", "--block-n", "256", "--num-warps", "4"]
    assert main(["explore", *chosen, "--html", str(html), "--plot", str(plot)]) == 0
    printed = capsys.readouterr().out
    assert "B/s)" in printed and "another loads" in printed
    assert not any(word in printed for word in ("FLOP", "tensor cores", "naive"))
    assert 'id="levels"' in html.read_text("utf-8") and 'id="roofline"' not in html.read_text("utf-8")
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert main(["simulate", *chosen, "--softmax-variant", "safe"]) == 0
    printed = capsys.readouterr().out
    assert "320 kB at HBM (X read once, Y written once)" in printed
    assert re.search(r"Roofline +\S+ \S+ \(HBM bandwidth\); this takes", printed)


def test_compare_prints_lengths_and_limits(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And draws them."""
    plot = tmp_path / "out.png"
    options = ["--batch", "1", "--heads", "2", "--seqlens", "64,128", "--schedule", "flash2", "--schedule", "naive"]
    assert main(["compare", *options, "--block-m", "64", *PINNED[2:], "--plot", str(plot), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["seqlens"] == [64, 128]
    assert {limit["schedule"] for limit in document["limits"]} == {"flash2", "naive"}
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_devices_lists_the_catalogue_and_shows_one(capsys: pytest.CaptureFixture[str]) -> None:
    """As text and as JSON."""
    assert main(["devices"]) == 0
    assert "h200" in capsys.readouterr().out
    assert main(["devices", "h200", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["numbers"]["sms"]["value"] == 132


@pytest.mark.parametrize("arguments", [["--help"], ["devices"], ["simulate", "--help"]])
def test_heavy_libraries_wait_until_they_are_needed(arguments: list[str]) -> None:
    """So that help and lists come at once."""
    code = (
        "import sys; from tilesight.cli.main import main; main(sys.argv[1:]);"
        "print(*{'numba', 'matplotlib', 'tilesight.simulator.operations.profile'} & set(sys.modules), file=sys.stderr)"
    )
    command = [sys.executable, "-P", "-c", code, *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stderr == "\n"


def test_the_list_of_commands_loads_none_of_them() -> None:
    """Nor numpy; and a command loads itself alone."""
    code = (
        "import sys; from tilesight.cli.main import main; main([*sys.argv[1:], '--help']);"
        "print(*sorted(name for name in sys.modules if name == 'numpy' or 'cli.commands.' in name), file=sys.stderr)"
    )
    for arguments, loaded in ((), ""), (("devices",), "numpy tilesight.cli.commands.devices"):
        command = [sys.executable, "-P", "-c", code, *arguments]
        process = subprocess.run(command, capture_output=True, text=True, check=True)
        assert process.stderr == f"{loaded}\n"


def test_the_public_names_exist_and_load_on_first_use() -> None:
    """An import alone does not even load numpy."""
    code = (
        "import sys, tilesight; light = 'numpy' not in sys.modules;"
        "from tilesight import AttentionProblem, load_device, simulate, explore;"
        "print(light, *(callable(getattr(tilesight, name)) for name in tilesight._ROOMS))"
    )
    process = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert set(process.stdout.split()) == {"True"}
    assert {"simulate", "explore", "AttentionProblem", "load_device"} <= set(dir(tilesight))


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="no attribute 'simulator_of_dreams'"):
        tilesight.simulator_of_dreams  # noqa: B018


@pytest.mark.parametrize(
    ("arguments", "wanted_by"),
    [("explore --compiled", "--compiled"), ("simulate --compiled", "--compiled"), ("explain", "explain")],
)
def test_compiling_without_a_compiler_says_what_to_install(
    arguments: str, wanted_by: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing falls back to the estimate."""
    reason = "torch is not installed (no GPU is needed): python -m pip install torch"
    monkeypatch.setattr("tilesight.kernels.launch.availability.missing_package", lambda: reason)
    assert _error(capsys, *arguments.split(), *SMALL) == f"tilesight: {wanted_by}: {reason}\n"


def test_who_compiled_is_named_only_where_code_is_used(capsys):
    """The library holds head dim 64, not 72."""
    for head_dim, named in ((64, True), (72, False)):
        shape = ["--batch", "1", "--heads", "4", "--seqlen", "256", "--head-dim", str(head_dim)]
        pinned = ["--block-m", "64", "--block-n", "64", "--num-warps", "4", "--num-stages", "2"]
        for command in (["simulate"], ["explore", *pinned]):
            assert main([*command, *shape]) == 0
            assert ("compiled by Triton 3.6.0 for sm_90" in capsys.readouterr().out) == named
