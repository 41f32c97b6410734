"""The results file: appended, synced, continued; no row lost, none twice, no half line."""

import json
import os
import signal
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.made_up_measurements import H200, HEADER, MACHINE, a_timing, some_points
from support.waiting import ended
from tilesight.simulator.launch.program import Resources
from tilesight.validate.compare.campaign import measure_points
from tilesight.validate.measure.results_file import Header, Row, appending, read_results
from tilesight.validate.measure.session import PointSession
from tilesight.validate.measurement import Lost, Measurement
from tilesight.validate.points.point import Point

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


class Killing:
    """Stands in for what writes a results file, and ends the process, as SIGKILL does, at the n-th moment of a run.

    The moments are named by what has happened to the file, so that they are the same on every machine: the file cut to
    whole lines, before a line, within it, after it, once it is synced, and once the new file's folder is.
    """

    def __init__(self, at: int) -> None:
        self._left = at
        self._write, self._sync, self._cut = os.write, os.fsync, os.ftruncate

    def here(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1

    def write(self, descriptor: int, line: bytes) -> int:
        self.here()
        if self._left == 0:
            self._write(descriptor, line[: len(line) // 2])
        self.here()
        written = self._write(descriptor, line)
        self.here()
        return written

    def sync(self, descriptor: int) -> None:
        self._sync(descriptor)
        self.here()

    def cut(self, descriptor: int, length: int) -> None:
        self._cut(descriptor, length)
        self.here()


class FakeGpu(PointSession):
    """A session whose worker is this process."""

    def __init__(self) -> None:
        super().__init__("0", H200, {"name": "h200", "set": []}, "none")

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        outcome = a_row(Point.from_dict(job["point"])).outcome
        assert isinstance(outcome, Measurement)
        return {"measurement": outcome.to_dict(), "kernels": []}


def validate(
    path: Path, session: PointSession, points: Sequence[Point], keep: Callable[[Row], None] = lambda row: None
) -> None:
    """A whole validation run. Args: keep: called with each row once it is in the file."""
    with appending(path, HEADER) as (known, append):
        measure_points(
            points,
            H200,
            [session],
            lambda wanted: [RESOURCES for _ in wanted],
            known=known,
            keep=lambda row: (append(row), keep(row))[1],
        )
    session.close()


def killed(run: Callable[[], None]) -> bool:
    """Run something in a process of its own. Returns: whether it was killed; else it went through."""
    with warnings.catch_warnings():
        # Forking is deprecated beside threads; the child uses nothing that a thread of pytest may hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        code = 1
        try:
            run()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def killed_at(moment: int, path: Path, points: Sequence[Point]) -> bool:
    """Validate in a process that is killed at a moment. Returns: whether the run came that far."""

    def run() -> None:
        killing = Killing(moment)
        os.write, os.fsync, os.ftruncate = killing.write, killing.sync, killing.cut
        validate(path, FakeGpu(), points)

    return killed(run)


def rows_of(path: Path, points: Sequence[Point]) -> list[Row]:
    """Rows of a file, each of which must be that of its point, measured."""
    rows = read_results(path)[1]
    assert rows == [a_row(point) for point in points[: len(rows)]]
    return rows


def test_a_run_killed_anywhere_continues(tmp_path: Path) -> None:
    """Before, within and after every write and sync: a row that was written whole stays; each point gets one row."""
    points, kept = POINTS[:3], []
    for moment in count():
        path = tmp_path / f"{moment}.jsonl"
        if not killed_at(moment, path, points):
            break
        kept.append(len(rows_of(path, points)))
        validate(path, FakeGpu(), points)
        assert len(rows_of(path, points)) == len(points)
    header, rows = [0] * 6, [row for n in range(3) for row in (n, n, n + 1, n + 1)]
    assert kept == header + rows


def test_a_run_killed_again_and_again_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Each time at a later moment: rows stay as they were, new ones follow, and the last run ends."""
    path, before = tmp_path / "results.jsonl", 0
    for moment in count():
        if not killed_at(moment, path, POINTS[:10]):
            break
        rows = rows_of(path, POINTS)
        assert len(rows) >= before
        before = len(rows)
    assert len(rows_of(path, POINTS)) == 10


def test_a_killed_run_leaves_no_worker_and_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker, a process of its own, ends; another run may have the file at once."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    path = tmp_path / "results.jsonl"

    def die(row: Row) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def run() -> None:
        session = PointSession("0", H200, {"name": "h200", "set": []}, "not asked for", module="support.fake.worker")
        validate(path, session, POINTS[:2], die)

    assert killed(run)
    with appending(path, HEADER) as (known, _):
        (row,) = known
    assert isinstance(row.outcome, Measurement)
    assert ended(row.outcome.peak_memory_bytes)  # where the fake worker tells its process number
