"""The results file: appended, synced, continued; no row lost, none twice, no half line."""

import fcntl
import json
import os
import random
import signal
import time
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_measurements import H200, HEADER, MACHINE, a_timing, some_points
from tilesight.simulator.program import Resources
from tilesight.validate.measurement import Lost, Measurement
from tilesight.validate.points import Point
from tilesight.validate.results import Header, Row, appending, read_results
from tilesight.validate.validate import measure_points
from tilesight.validate.workers import Lane

KILLS = 100
POINTS = some_points(40)
RESOURCES = Resources(registers_per_thread=168, smem_bytes_per_cta=49152, origin="compiled")


def a_row(point: Point) -> Row:
    outcome = Measurement(
        key=point.key, timing=a_timing(), launches=(), peak_memory_bytes=1, oracle_error=0.5, counters="none"
    )
    return Row(point=point, resources=(RESOURCES,), outcome=outcome)


def write(path: Path, rows: list[Row], header: Header = HEADER) -> list[Row]:
    """Append rows as one run. Returns: the rows that were there before."""
    with appending(path, header) as (known, keep):
        for row in rows:
            keep(row)
    return known


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    """Measurements and lost points, over two runs on two days; the header is that of the first."""
    path = tmp_path / "results.jsonl"
    first, second = a_row(POINTS[0]), Row(point=POINTS[1], resources=(), outcome=Lost(key=POINTS[1].key, reason="hang"))
    assert write(path, [first]) == []
    later = replace(HEADER, machine=replace(MACHINE, date="2027-01-01"), device="mine.toml")
    assert write(path, [second], later) == [first]
    assert read_results(path) == (HEADER, [first, second])


def test_a_row_is_on_the_disk_when_keep_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written whole in one go, then synced; the header likewise."""
    calls: list[str] = []
    write_bytes, sync = os.write, os.fsync
    monkeypatch.setattr(os, "write", lambda fd, data: (calls.append(f"write {data[-1:]!r}"), write_bytes(fd, data))[1])
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("sync"), sync(fd))[1])
    with appending(tmp_path / "results.jsonl", HEADER) as (_, keep):
        calls.clear()
        keep(a_row(POINTS[0]))
        assert calls == ["write b'\\n'", "sync"]


def test_a_half_line_at_the_end_is_cut_off(tmp_path: Path) -> None:
    """Wherever the machine died within the last line: the rows before it stay, the next run appends a whole one."""
    path = tmp_path / "results.jsonl"
    write(path, [a_row(point) for point in POINTS[:2]])
    whole = path.read_bytes()
    last = whole[:-1].rfind(b"\n") + 1
    for length in range(last, len(whole)):
        path.write_bytes(whole[:length])
        assert write(path, [a_row(POINTS[2])]) == [a_row(POINTS[0])]
        assert read_results(path)[1] == [a_row(POINTS[0]), a_row(POINTS[2])]


def test_a_half_header_is_a_new_file(tmp_path: Path) -> None:
    """A run that died before its header was whole leaves nothing to continue."""
    path = tmp_path / "results.jsonl"
    path.write_bytes(b'{"schema": "tilesi')
    assert write(path, [a_row(POINTS[0])]) == []
    assert read_results(path) == (HEADER, [a_row(POINTS[0])])


def test_rows_of_another_machine_are_refused(tmp_path: Path) -> None:
    """The text names what differs, and the file stays as it was."""
    path = tmp_path / "results.jsonl"
    write(path, [a_row(POINTS[0])])
    before = path.read_bytes()
    other = replace(HEADER, machine=replace(MACHINE, triton="3.9.0"))
    with pytest.raises(ValueError, match=r"results.jsonl: was measured with triton 3.6.0, this is 3.9.0; name another"):
        write(path, [], other)
    assert path.read_bytes() == before


def test_two_runs_cannot_write_to_one_file(tmp_path: Path) -> None:
    """The second is told so at once."""
    path = tmp_path / "results.jsonl"
    with appending(path, HEADER), pytest.raises(ValueError, match="another run is writing to it"):
        write(path, [])
    assert write(path, []) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hello\n", "line 1 is no result of `tilesight validate`"),
        ('{"schema": "other/1"}\n', "line 1 .*schema = 'other/1'"),
        ("[1, 2]\n", "line 1"),
        (json.dumps(HEADER.to_dict()) + "\n{}\n", "line 2 .*KeyError: 'point'"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """In one line with the line's number; nothing is written to it."""
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=reason) as refusal:
        write(path, [a_row(POINTS[0])])
    assert "\n" not in str(refusal.value)
    assert path.read_text() == text


def validate_in_child(path: Path) -> int:
    """A validation run with a fake worker, in a process of its own. Returns: its number."""
    with warnings.catch_warnings():
        # Forking is deprecated beside threads; the child uses nothing that a thread of pytest may hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        lane = Lane("0", H200, {"name": "h200", "set": []}, "not asked for", module="fake_worker")
        with appending(path, HEADER) as (known, keep):
            measure_points(POINTS, H200, [lane], lambda wanted: [RESOURCES for _ in wanted], known=known, keep=keep)
        lane.close()
        code = 0
    finally:
        os._exit(code)


def test_a_run_killed_anywhere_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL at 100 random moments: every row once, none half, and each run goes on where the last one stopped."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    generator = random.Random(4)
    kills = finished = files = 0
    path = tmp_path / "0.jsonl"
    seen: list[Row] = []
    while kills < KILLS or finished < files + 1:
        child = validate_in_child(path)
        if kills < KILLS:
            time.sleep(generator.uniform(0.0, 0.3))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        kills += os.WIFSIGNALED(status)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
        rows = read_results(path)[1] if path.exists() else []
        assert rows[: len(seen)] == seen
        assert [row.point for row in rows] == POINTS[: len(rows)]
        assert all(isinstance(row.outcome, Measurement) for row in rows)
        seen = rows
        if len(rows) == len(POINTS):
            finished += 1
            if kills < KILLS:
                files += 1
                path, seen = tmp_path / f"{files}.jsonl", []
    assert kills == KILLS
    assert files >= 3
    with path.open() as file:  # nobody holds the lock of a dead run
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
