"""A schedule is three files and a GPU of a known architecture is one: planted, they keep the whole contract."""

import json
from pathlib import Path

import pytest
from support.planted import plant, run, run_tests

SMALL = ["--batch", "1", "--heads", "2", "--seqlen", "256"]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of the copy."""
    return plant(tmp_path_factory.mktemp("planted"))


def test_a_planted_schedule_keeps_the_contract_of_all_schedules(house: Path) -> None:
    """Every clause, its page included, unasked."""
    run_tests(house, "tests/schedules/test_every_schedule.py", "tests/schedules/test_pages.py", "-k", "streamed")


def test_a_planted_schedule_and_gpu_are_on_the_command_line(house: Path) -> None:
    """With the schedule's own option: in the help, in answers, and in what is refused."""
    asked = ["-m", "tilesight", "simulate", "--schedule", "streamed", "--device", "toy-100", *SMALL]
    seen = {}
    for walk in ("straight", "zigzag"):
        answer = json.loads(run(house, *asked, "--walk", walk, "--json").stdout)
        seen[walk] = answer["config"]["walk"], answer["device"], answer["total"]["time_s"] > 0
    assert seen == {walk: (walk, "toy-100", True) for walk in ("straight", "zigzag")}
    refused = run(house, *asked, "--walk", "sideways")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "tilesight: --walk = 'sideways': must be one of straight, zigzag\n"
    assert "(streamed only)" in " ".join(run(house, "-m", "tilesight", "explore", "--help").stdout.split())


def test_a_planted_schedule_is_ranked_and_compared_with_the_others(house: Path) -> None:
    """Its space is walked, and it stands beside the other schedules of its problem."""
    explored = run(
        house, "-m", "tilesight", "explore", "--schedule", "streamed", "--device", "toy-100", *SMALL, "--json"
    )
    assert json.loads(explored.stdout)["candidates"] == 8
    chosen = ["--schedule", "naive", "--schedule", "streamed", "--seqlens", "128", *SMALL[:4], "--json"]
    compared = json.loads(run(house, "-m", "tilesight", "compare", *chosen).stdout)
    assert [point["schedule"] for point in compared["points"]] == ["naive", "streamed"]


def test_a_planted_schedule_is_drawn_and_measured_like_the_others(house: Path) -> None:
    """A colour of the palette, three points of the short list, a share of the long one, unasked."""
    code = (
        "from tilesight.simulator.report.series import COLORS, color\n"
        "from tilesight.validate.points.sets import default_points, full_points\n"
        "from tilesight.simulator.device.device import load_device\n"
        "drawn = full_points(['flash2', 'streamed'], load_device('h200'))\n"
        "shares = [sum(point.schedule == name for point in drawn) for name in ('streamed', 'flash2')]\n"
        "print(color('streamed') in COLORS, len(default_points(['streamed'])), 0 < 3 * shares[0] < shares[1])\n"
    )
    shown = run(house, "-c", code)
    assert (shown.stderr, shown.stdout.split()) == ("", ["True", "3", "True"])


def test_a_planted_gpu_is_listed_with_the_numbers_of_its_architecture(house: Path) -> None:
    """Those that its file does not have are those of the SM of its compute capability."""
    listed = run(house, "-m", "tilesight", "devices")
    assert "toy-100" in listed.stdout
    shown = run(house, "-m", "tilesight", "devices", "toy-100")
    assert shown.returncode == 0 and "sms" in shown.stdout and "100" in shown.stdout
