"""Runs the laws in worker processes: an implementation that hangs or crashes costs its law, and no other."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

from .hunt import EXAMPLES, LAWS, find_law
from .process import Died, Process

WORKER = f"{__package__}.worker"
TIMEOUT_S = 30.0
FIRST_CALL_S = 60.0
"""A first call, on a plain input, may start a GPU and compile: what it may take by default."""
LOADING_S = 300.0
"""Importing torch, or a module that compiles as it is imported, takes its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to run.

    Args:
        target: as for `target.load`; given: declarations; laws: names, in order.
        examples: inputs for each law; seed: of what is drawn; timeout_s: what one input may take, the first, plain one
            included; where None, `FIRST_CALL_S` and then `TIMEOUT_S` [s].
    """

    target: str
    given: dict[str, Any] = field(default_factory=dict)
    laws: tuple[str, ...] = tuple(law.name for law in LAWS)
    examples: int = EXAMPLES
    seed: int = 0
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LawResult:
    """What became of a law. Args: as `softmax_laws.Result`; inputs: the counter-example, name -> expression."""

    law: str
    outcome: str
    examples: int = 0
    reason: str = ""
    unless: str = ""
    inputs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """All results. Args: declaration: as completed by trying, None where nothing could be tried; results: in order."""

    declaration: dict[str, Any] | None
    results: tuple[LawResult, ...]


def run(job: Job, progress: Callable[[int, int], None] | None = None) -> Checked:
    """Run all laws of a job, with a new worker after each that dies.

    Args:
        progress: called with (done, total) after each law.

    Raises:
        ValueError: the target cannot be found or imported, or does not work on a plain input, in time; one line.
    """
    # Hypothesis would leave a folder of notes wherever the user happens to be.
    with TemporaryDirectory(prefix="tilesight-laws-") as notes:
        return _run(job, notes, progress)


def _run(job: Job, notes: str, progress: Callable[[int, int], None] | None) -> Checked:
    results: list[LawResult] = []
    declaration: dict[str, Any] | None = None
    deadly: dict[str, str] = {}
    while len(results) < len(job.laws):
        law, trying = "", ""
        inputs: dict[str, str] = {}
        try:
            for event in _events(job, job.laws[len(results) :], list(deadly), notes):
                kind, value = next(iter(event.items()))
                if kind == "bad" and not deadly:
                    raise ValueError(value)
                if kind == "bad":
                    results += _all_dead(job, deadly, len(results))
                elif kind == "trying":
                    trying = value
                elif kind == "ready":
                    declaration = value
                elif kind == "law":
                    law, inputs = value, {}
                elif kind == "at":
                    inputs = value
                elif kind == "result":
                    results.append(LawResult(**value))
                    law = ""
                    if progress:
                        progress(len(results), len(job.laws))
        except Died as death:
            if law:
                results.append(
                    LawResult(law=law, outcome="failed", reason=str(death), unless=find_law(law).unless, inputs=inputs)
                )
            elif declaration is None and trying and death.hung:
                more = "--timeout gives it longer, --arrays names others"
                raise ValueError(f"{job.target!r}: {death}, on a plain input of {trying} arrays; {more}") from None
            elif declaration is None and trying:
                deadly[trying] = str(death)
            else:
                raise ValueError(f"{job.target!r}: importing it, {death}") from None
    return Checked(declaration=declaration, results=tuple(results))


def _all_dead(job: Job, deadly: dict[str, str], done: int) -> list[LawResult]:
    """Every law failed, as no kind of arrays could be given without the process dying of it."""
    reason = "; ".join(f"{kind}: {why}, on a plain input" for kind, why in deadly.items())
    return [LawResult(law=law, outcome="failed", reason=reason) for law in job.laws[done:]]


def _events(job: Job, laws: tuple[str, ...], skip: list[str], notes: str) -> Iterator[dict[str, Any]]:
    """What a new worker says. Raises: Died: it ended before it was done, or was silent for too long and was ended."""
    job_of_worker: dict[str, Any] = {"target": job.target, "given": job.given, "skip": skip, "laws": laws}
    job_of_worker |= {"examples": job.examples, "seed": job.seed}
    worker = Process(WORKER, job_of_worker, {"HYPOTHESIS_STORAGE_DIRECTORY": notes})
    try:
        worker.begin()
        limit_s = LOADING_S
        while "done" not in (event := worker.event(limit_s)):
            limit_s = job.timeout_s or (FIRST_CALL_S if "trying" in event else TIMEOUT_S)
            yield event
    finally:
        worker.end()
