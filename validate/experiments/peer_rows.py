"""Peers measured problem by problem, beside our fastest schedule: values, JSON, and a table for people."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...simulator import units
from ...simulator.display.render import Column, table, times
from ...simulator.problems.problem import Problem
from ..measure.results_file import Row
from ..measure.session import Ask
from ..measurement import Lost, Measurement, Outcome, reason_in
from ..points.point import Point
from .peers import PEERS, why_not

SCHEMA = "tilesight.peers/1"
OURS = "tilesight"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRow:
    """A peer at a problem.

    Args:
        peer: name, or `tilesight`.
        problem: what it computes.
        l2: `cold` or `warm`.
        outcome: the measurement, or why there is none.
        family: of the kernels that ran; empty where none did. For our own: the schedule.
    """

    peer: str
    problem: Problem
    l2: str
    outcome: Outcome
    family: str = ""

    @property
    def time_s(self) -> float | None:
        """Median time; None where there is none [s]."""
        timing = self.outcome.timing if isinstance(self.outcome, Measurement) else None
        return timing.median_s if timing else None

    def to_dict(self) -> dict[str, Any]:
        """The row's object in JSON."""
        entry = {"peer": self.peer, "problem": self.problem.to_dict(), "l2": self.l2, "family": self.family}
        return entry | {"outcome": self.outcome.to_dict()}


def measure_peers(
    points: Iterable[Point],
    device: Mapping[str, Any],
    ask: Ask,
    *,
    peers: Sequence[str] = tuple(PEERS),
    progress: Callable[[int, int], None] | None = None,
) -> list[PeerRow]:
    """Measure peers at the problems of points, each problem and L2 state once.

    Args:
        device: as in jobs: `name`, and `set`.
        ask: has a process on a GPU answer a job (see `session.Ask`).
        progress: called with (done, total).

    Raises:
        ValueError: there is no such peer.
    """
    cases = list(dict.fromkeys((point.problem, point.shape, point.l2) for point in points))
    rows = []
    for problem, shape, l2 in cases:
        for peer in peers:
            key = f"{peer}/{shape}/{l2}"
            reason = why_not(peer, problem)
            job = {
                "do": "peer",
                "key": key,
                "peer": peer,
                "problem": problem.to_dict(),
                "l2": l2,
                "device": dict(device),
            }
            answer = {"lost": reason} if reason else ask(job)
            rows.append(
                PeerRow(
                    peer=peer, problem=problem, l2=l2, outcome=_outcome(key, answer), family=answer.get("family", "")
                )
            )
            if progress:
                progress(len(rows), len(cases) * len(peers))
    return rows


def ours(rows: Iterable[Row]) -> list[PeerRow]:
    """Our fastest schedule and configuration of each problem and L2 state, right ones only."""
    best: dict[tuple[str, str], PeerRow] = {}
    for row in rows:
        outcome, point = row.outcome, row.point
        if not isinstance(outcome, Measurement) or outcome.timing is None or outcome.oracle_error > 1:
            continue
        other = best.get((point.shape, point.l2))
        if other is None or outcome.timing.median_s < (other.time_s or 0.0):
            fastest = PeerRow(peer=OURS, problem=point.problem, l2=point.l2, outcome=outcome, family=point.schedule)
            best[point.shape, point.l2] = fastest
    return list(best.values())


def peers_dict(rows: Sequence[PeerRow]) -> dict[str, Any]:
    """The object that `validate --peers --json` prints."""
    return {"schema": SCHEMA, "rows": [row.to_dict() for row in rows]}


def peers_text(rows: Sequence[PeerRow], width: int = 120, color: bool = False) -> str:
    """One table a problem, the fastest first; then what the peers refused, and what is to be doubted."""
    lines: list[str] = []
    for problem, l2 in dict.fromkeys((row.problem, row.l2) for row in rows):
        of_case = [row for row in rows if (row.problem, row.l2) == (problem, l2)]
        ran = sorted((row for row in of_case if row.time_s), key=lambda row: row.time_s or 0.0)
        lines += ["", f"{problem.text}, {l2} L2"]
        if ran:
            lines.append(_table(ran, width, color))
        lines += [f"  {row.peer}: {row.outcome.reason}" for row in of_case if isinstance(row.outcome, Lost)]
        lines += [
            f"  {row.peer}: {doubt}"
            for row in of_case
            if isinstance(row.outcome, Measurement)
            for doubt in row.outcome.doubts
        ]
    return "\n".join(lines[1:])


def _table(ran: Sequence[PeerRow], width: int, color: bool) -> str:
    outcomes = [row.outcome for row in ran if isinstance(row.outcome, Measurement)]
    timings = [outcome.timing for outcome in outcomes if outcome.timing]
    fastest_s = timings[0].median_s
    rates = [row.problem.matmul_flop / timing.median_s for row, timing in zip(ran, timings, strict=True)]
    columns = [
        Column(title="peer", cells=[row.peer for row in ran], left=True),
        Column(title="ran", cells=[row.family for row in ran], left=True),
        Column(title="time", cells=[units.duration(timing.median_s) for timing in timings]),
        Column(title="to fastest", cells=[times(timing.median_s / fastest_s) for timing in timings]),
        Column(title="rate", cells=[units.rate(rate) for rate in rates]),
        Column(title="clock", cells=[units.clock(timing.clock_hz) for timing in timings], rank=2),
        Column(title="noise", cells=[timing.noise for timing in timings], rank=3, left=True),
        Column(title="launches", cells=[str(len(outcome.launches)) for outcome in outcomes], rank=1),
        Column(title="memory", cells=[units.capacity(outcome.peak_memory_bytes) for outcome in outcomes], rank=1),
    ]
    return table(columns, width, color)


def _outcome(key: str, answer: Mapping[str, Any]) -> Outcome:
    if "lost" in answer or answer.get("out_of_memory"):
        return Lost(key=key, reason=reason_in(answer))
    return Measurement.from_dict(answer["measurement"])
