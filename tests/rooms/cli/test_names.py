"""Names that nothing has: what is said of them, and what shells complete."""

import pytest
from tilesight.simulator.device.device import catalogue, device_name, load_device
from tilesight.simulator.names import unknown

from tilesight.cli.main import main


@pytest.mark.parametrize(("alias", "name"), [("h100", "h100-sxm"), ("a100", "a100-sxm-80gb"), ("H200", "h200")])
def test_a_short_name_of_a_device_is_that_device(alias: str, name: str) -> None:
    """In any case of letters."""
    assert device_name(alias) == name
    assert load_device(alias) == load_device(name)


def test_a_near_name_is_asked_for() -> None:
    """And no other is told."""
    assert unknown("h20", ["h200", "rtx-5090", "b200"]) == "'h20' is unknown: did you mean h200, b200?"


def test_a_far_name_lists_few_and_points_at_many() -> None:
    """57 keys are no answer."""
    assert unknown("zz", ["abc", "def"]) == "'zz' is unknown; known are abc, def"
    many = [f"name{number}" for number in range(20)]
    assert unknown("zz", many, "`devices`") == "'zz' is unknown; `devices` lists all"


def test_where_there_is_no_name_that_is_said() -> None:
    """Not a list without an end."""
    assert unknown("zz", [], "`devices`") == "'zz' is unknown; there are none"


def _completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """What bash is told, with the script that `--install-completion` installs, after these words."""
    monkeypatch.setenv("_TILESIGHT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(("tilesight", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    with pytest.raises(SystemExit, match="0"):
        main([])
    return capsys.readouterr().out.split()


def test_a_shell_completes_devices_schedules_and_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where an earlier option is wrong."""
    for words, expected in (
        (("devices", "h"), [name for name in catalogue() if name.startswith("h")]),
        (("simulate", "--device", "h20"), ["h20", "h200"]),
        (("explore", "--batch", "few", "--schedule", "flash2_"), ["flash2_tma"]),
        (("compare", "--seql"), ["--seqlens", "--seqlen-q"]),
        (("check",), ["check-softmax"]),
    ):
        assert _completed(monkeypatch, capsys, *words) == expected


def test_what_a_shell_installs_asks_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script asks the command with the variable that it answers to, whatever shell the tests were started from."""
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "bash")
    with pytest.raises(SystemExit, match="0"):
        main(["--show-completion"])
    assert "_TILESIGHT_COMPLETE=complete_bash" in capsys.readouterr().out
    assert main(["--help"]) == 0
    assert "--install-completion" in capsys.readouterr().out
