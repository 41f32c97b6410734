"""Whatever is typed, the command answers, or refuses in one line; it never shows a traceback."""

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tilesight.simulator.schedules.registry import all_options, written_schedules

from tilesight.cli.main import main

# Valid values are small, so that whatever is accepted is also quick.
PROBLEM = {
    "--batch": ["1", "2"],
    "--heads": ["1", "4"],
    "--kv-heads": ["1", "2"],
    "--seqlen": ["1", "48", "200"],
    "--seqlen-q": ["1", "70"],
    "--seqlen-k": ["1", "129"],
    "--head-dim": ["16", "64", "72"],
    "--dtype": ["fp32", "fp16", "bf16", "fp8"],
    "--dropout": ["0", "0.1"],
    "--window": ["0", "1", "50"],
}
MACHINE = {
    "--device": ["h200", "a100-sxm-40gb", "rtx-5090", "b200"],
    "--set": ["l2_bytes=1MiB", "sms=2", "hbm_bytes=256MiB", "mufu_per_cycle=4"],
    "--l2": ["cold", "warm"],
    "--overhead": ["stream", "graph"],
}
CONFIG = {
    f"--{name.replace('_', '-')}": [str(option.values[place]) for place in (0, len(option.values) // 2, -1)]
    for name, option in all_options().items()
}
SCHEDULE = {"--schedule": list(written_schedules())}
OPTIONS_OF_COMMANDS = {
    "simulate": PROBLEM | MACHINE | CONFIG | SCHEDULE | {"--registers": ["32", "255"], "--smem-bytes": ["0", "65536"]},
    "explore": PROBLEM | MACHINE | SCHEDULE | {"--top": ["1", "3"], "--workers": ["1"]},
    "compare": MACHINE | CONFIG | SCHEDULE | {"--seqlens": ["1", "64,100"], "--workers": ["1"], "--batch": ["1"]},
    "devices": {"--set": MACHINE["--set"]},
    "explain": PROBLEM | MACHINE | CONFIG | SCHEDULE,
    "calibrate": {"--base": MACHINE["--device"], "--only": ["hbm", "l2,hbm"]},
    "check-softmax": {"--adapter": ["softmax"], "--dtype": ["fp16"], "--examples": ["1"], "--law": ["oracle"],
                      "--declare": ["masking=none", "dtype=fp16"], "--seed": ["1"]},
    "validate": {"--read": ["none.json"], "--full": [], "--seed": ["1"],
                 "--problem": ["seqlen=64"], "--results": ["none/x"], "--gpus": ["2"], "--device": MACHINE["--device"]},
}  # fmt: skip
PINNED = {"--block-m": "64", "--block-n": "64", "--num-warps": "4", "--num-stages": "2"}
"""Of commands that walk spaces of configurations: those of all schedules would take seconds."""
FLAGS = {"simulate": ["--causal", "--full"], "explore": ["--causal"], "compare": ["--causal"], "explain": ["--sass"]}

# What nobody should type. Large numbers are so large that they are out of range everywhere.
NONSENSE = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.integers(max_value=0).map(str),
    st.integers(min_value=1 << 41).map(str),
    st.sampled_from(
        ["", "nan", "inf", "1e400", "0x10", "1_0", "٣", "--", "-", "=", "a=b", "l2_bytes=nan", "../x.toml"]
    ),
    st.sampled_from(
        [".toml", "\x00.toml", "9" * 5000, "l2_bytes=" + "9" * 5000, "[bold]", "\x1b[31m", "x\ny", "64,,64"]
    ),
)


@st.composite
def commands(draw: st.DrawFn) -> list[str]:
    """A command with options of its own, most of them with a value that is allowed."""
    command = draw(st.sampled_from(sorted(OPTIONS_OF_COMMANDS)))
    arguments = [command]
    if command == "check-softmax":
        arguments.append("tilesight.softmax_laws.examples:nothing")
    names = draw(st.lists(st.sampled_from(sorted(OPTIONS_OF_COMMANDS[command])), unique=True, max_size=5))
    for name in names + draw(st.lists(st.sampled_from(names), max_size=1) if names else st.just([])):
        allowed = st.sampled_from(OPTIONS_OF_COMMANDS[command][name]) if OPTIONS_OF_COMMANDS[command][name] else None
        arguments += [name] if allowed is None else [name, draw(st.one_of(allowed, allowed, allowed, NONSENSE))]
    arguments += draw(st.lists(st.sampled_from([*FLAGS.get(command, []), "--json"]), unique=True, max_size=2))
    for name, value in PINNED.items():
        if command in ("explore", "compare") and name not in arguments:
            arguments += [name, value]
    if command in ("simulate", "explore") and "--seqlen" not in arguments:
        arguments += ["--seqlen", "64"]
    if command == "compare" and "--seqlens" not in arguments:
        arguments += ["--seqlens", "64,100"]
    for name, value in (("--heads", "2"), ("--batch", "1")):
        if command in ("simulate", "explore", "compare", "explain") and name not in arguments:
            arguments += [name, value]
    return arguments


SLOW = ("compiling the engine", " predictions, about ", " s left")
"""What a slow machine is told while it waits."""


def _run(arguments: list[str]) -> tuple[int, str, str]:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()


def _holds(arguments: list[str]) -> None:
    code, out, err = _run(arguments)
    remarks = [line for line in err.splitlines() if not any(slow in line for slow in SLOW)]
    assert code in (0, 2) or (code == 1 and arguments[0] == "calibrate"), (arguments, err)
    assert "Traceback" not in err and "internal error" not in err
    if code == 2:
        assert out == ""
        assert len(remarks) == 1 and remarks[0].startswith("tilesight: ")
        assert len(remarks[0]) > len("tilesight: ")
        _names_what_was_given(arguments, remarks[0])
    elif code == 0:
        assert remarks == []
        assert out
        if "--json" in arguments and "--help" not in arguments:
            assert "schema" in json.loads(out)


ADVICE = (
    *("; try ", "; name ", " (no GPU is needed): ", "did you mean "),
    *("without --", "beside --", "tilesight ", "not --"),
)
"""What a message opens its advice with, or what is missing: options behind it need not be given."""


def _names_what_was_given(arguments: list[str], said: str) -> None:
    blamed = said.removeprefix("tilesight: ")
    for begin in ADVICE:
        blamed = blamed.partition(begin)[0]
    for name in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", blamed):
        assert any(word.partition("=")[0] == name for word in arguments), (arguments, said)


@settings(max_examples=150)
@given(commands())
@example(["simulate", "--seqlen", "64", "--batch", "9" * 4000])
@example(
    [
        "compare",
        "--seqlens",
        ",".join(["64"] * 40),
        "--batch",
        "1",
        "--heads",
        "1",
        "--schedule",
        "flash2",
        "--workers",
        "1",
    ]
)
def test_options_with_odd_values_give_an_answer_or_one_line(arguments: list[str]) -> None:
    """Each command with its own options, most values allowed."""
    _holds(arguments)


@settings(max_examples=100)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=4))
def test_words_at_random_give_an_answer_or_one_line(arguments: list[str]) -> None:
    """Any words at all."""
    _holds(arguments)


@settings(max_examples=40)
@given(st.binary(max_size=200))
def test_a_device_file_of_any_bytes_is_refused_in_one_line(content: bytes) -> None:
    """The line names the file."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "device.toml"
        file.write_bytes(content)
        code, out, err = _run(["simulate", "--device", str(file)])
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "device.toml" in err
