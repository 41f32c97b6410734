"""`tilesight tune --format vllm-moe` without its command line: a layer in, its best configurations per batch size out.

screen     the engine's configurations, by what tiles move
predict    the best of them with one group of rows of tiles, those that can still be as fast, then the fastest few
           with every group
rank       by the sum of the layer's launches
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...predicting import row_of
from ...simulator.prediction.kernel_row import KernelRow
from ...simulator.prediction.kernels import Request
from ...simulator.traffic import Traffic
from ..answers import Predict
from ..screening import KeepFraction, can_win
from ..tuning import Configured, TunedLaunch, Tuning, ranked
from .engine import BATCHES, GROUP, Configuration, Engine
from .layer import Layer, plain
from .routing import Routing, row_tiles
from .screen import PORTION, grouped, screened, tried

if TYPE_CHECKING:
    from ...kernels.capture.file import RecordedFunction

LAUNCHES = "tilesight.tuning.engines.launches:launch"
FIRST_GROUP = 16
FINALISTS = 5
"""Configurations that are tried with every group of rows of tiles."""
Asked = tuple[int, Configuration]
"""A batch size, and a configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerQuestion:
    """What is asked.

    Args:
        engine, layer: whose file, and for what; kernel: `FILE.py:NAME`, empty: the installed engine's.
        batches: tokens; routing: how they choose experts; old: entries of a file, which alone are ranked then.
        portion: of the configurations that fit, of one group of rows of tiles, to predict.
        settings: what-ifs of the device; time_limit_s: what the launches of a batch size may take to be recorded [s].
    """

    engine: Engine
    layer: Layer
    kernel: str = ""
    batches: tuple[int, ...] = BATCHES
    routing: Routing = field(default_factory=Routing)
    old: Mapping[int, Configuration] = field(default_factory=dict)
    portion: KeepFraction = PORTION
    settings: tuple[str, ...] = ()
    time_limit_s: float


def tune_layer(question: LayerQuestion, target: Request, predict: Predict) -> Tuning:
    """Rank an engine's configurations at every batch size.

    Args:
        predict: for the target; asked for the launches of one stage after the other.

    Raises:
        UserError: there is no such kernel; UserCodeFailed: its file raises; LostWorkers: as `predict_all`.
    """
    engine, layer = question.engine, question.layer
    space = _distinct(question.old.values()) if question.old else tried(engine, layer, target.device)[0]
    untuned = {batch: _now(question, batch) for batch in question.batches}
    worthwhile = {batch: _worthwhile(question, target, space, batch) for batch in question.batches}
    configured: dict[int, list[Configured]] = {batch: [] for batch in question.batches}

    def answer(wanted: Callable[[int], Iterable[Configuration]]) -> None:
        """Predict what is wanted of every batch size and is not predicted yet."""
        asked = [
            (batch, item)
            for batch in question.batches
            for item in _distinct(wanted(batch))
            if item not in [entry.values for entry in configured[batch]]
        ]
        recorded.add(asked)
        for (batch, _), entry in zip(asked, _answered(asked, recorded, predict), strict=True):
            configured[batch].append(entry)

    # All that may be asked for is recorded at once: a process that records takes seconds to start.
    recorded = _Recorded(question, target)
    recorded.add([(batch, item) for batch in question.batches for item, _ in worthwhile[batch]] + [*untuned.items()])
    first = question.portion.first if not question.old else 0
    answer(lambda batch: [*(item for item, _ in worthwhile[batch][: first or None]), untuned[batch]])
    answer(lambda batch: _open(worthwhile[batch], configured[batch]))
    if not question.old and len(engine.space[GROUP]) > 1:
        answer(lambda batch: _other_groups(question, batch, untuned[batch], configured[batch]))
    kernel = question.kernel or engine.kernels[0].rpartition(":")[2]
    launches = tuple(
        TunedLaunch(
            kernel=kernel.rpartition(":")[2],
            shape={"batch": batch},
            key={},
            configured=ranked(configured[batch]),
            default=untuned[batch],
        )
        for batch in question.batches
    )
    return Tuning(
        target=f"{engine.name}: {kernel}", device=target.name, launches=launches, notes=_notes(question, space)
    )


def _now(question: LayerQuestion, batch: int) -> Configuration:
    """What runs at a batch size today: the old file's nearest entry, as engines read it, else the engine's rule."""
    if not question.old:
        return question.engine.untuned(question.layer, batch)
    return question.old[min(question.old, key=lambda known: abs(known - batch))]


def _worthwhile(
    question: LayerQuestion, target: Request, space: Sequence[Configuration], batch: int
) -> list[tuple[Configuration, float]]:
    """What is predicted at most, with what all units take by its tiles [s]; 0 where that decides nothing."""
    if question.old:
        return [(item, 0.0) for item in space]
    groups = question.engine.space[GROUP]
    group = FIRST_GROUP if FIRST_GROUP in groups else groups[0]
    of_group = [item for item in space if item[GROUP] == group]
    return screened(of_group, question.layer, batch, question.routing, target.device, question.portion)


def _open(worthwhile: Sequence[tuple[Configuration, float]], entries: Sequence[Configured]) -> list[Configuration]:
    """Those that can still be as fast as the fastest that is predicted."""
    said = [(entry.row.traffic.time_s, entry.values) for entry in entries if entry.row.prediction]
    known = [(static_s, time_s) for time_s, values in said for item, static_s in worthwhile if item == values]
    return [item for item, static_s in worthwhile if can_win(static_s, known)]


def _other_groups(
    question: LayerQuestion, batch: int, untuned: Configuration, entries: Sequence[Configured]
) -> list[Configuration]:
    """The fastest few with every group of rows of tiles; groups that hold all of the rows are one."""
    tuned = [entry for entry in entries if entry.values != untuned]
    fastest = [dict(entry.values) for entry in ranked(tuned) if entry.row.prediction][:FINALISTS]
    items = []
    for entry in fastest:
        tiles = row_tiles(question.layer, batch, entry["BLOCK_SIZE_M"], question.routing)
        groups = {min(group, tiles): group for group in (*question.engine.space[GROUP], entry[GROUP])}
        items += grouped([entry], sorted(groups.values()))
    return items


class _Recorded:
    """Launches of a layer under configurations, as they were recorded."""

    def __init__(self, question: LayerQuestion, target: Request) -> None:
        self._question, self._target = question, target
        self._functions: dict[tuple[object, ...], RecordedFunction] = {}

    def __getitem__(self, asked: Asked) -> "RecordedFunction":
        return self._functions[_key(asked)]

    def add(self, asked: Sequence[Asked]) -> None:
        """Record what is not yet."""
        from ...kernels.capture.file import Asked as Recording
        from ...kernels.capture.file import capture_calls

        new = {key: pair for pair in asked if (key := _key(pair)) not in self._functions}
        if not new:
            return
        question = self._question
        kernel = question.kernel
        file, _, name = kernel.rpartition(":")
        if Path(file).is_file():
            kernel = f"{Path(file).resolve()}:{name}"
        shapes = tuple(
            {
                "engine": question.engine.name,
                "kernel": kernel,
                "layer": plain(question.layer),
                "batch": batch,
                "config": item,
                "skew": question.routing.skew,
                "seed": question.routing.seed,
            }
            for batch, item in new.values()
        )
        wanted = Recording(
            device=self._target.name,
            settings=question.settings,
            shapes=shapes,
            timeout_s=question.time_limit_s * len(question.batches),
        )
        self._functions |= dict(zip(new, capture_calls(LAUNCHES, wanted), strict=True))


def _key(asked: Asked) -> tuple[object, ...]:
    return asked[0], *sorted(asked[1].items())


def _answered(asked: Sequence[Asked], recorded: _Recorded, predict: Predict) -> list[Configured]:
    """Predictions of the layer for each batch size and configuration."""
    from ...kernels.compile.call import KernelLaunch

    functions = [recorded[pair] for pair in asked]
    calls = [call for function in functions for call in function.calls if isinstance(call, KernelLaunch)]
    rows = iter(predict(calls) if calls else [])
    configured = []
    for (_, item), function in zip(asked, functions, strict=True):
        layer_rows = [next(rows) if isinstance(call, KernelLaunch) else row_of(call) for call in function.calls]
        configured.append(Configured(values=item, row=_together(layer_rows, function.ended), authors=False))
    return configured


def _together(rows: Sequence[KernelRow], ended: str) -> KernelRow:
    """A layer's launches as one row: their traffic and time together, all else of the longest."""
    if refused := ended or next((row.refused for row in rows if row.refused), None):
        return replace(rows[0], prediction=None, refused=refused, failed=any(row.failed for row in rows))
    longest = max(rows, key=lambda row: row.traffic.time_s)
    assert longest.prediction
    total = sum((row.traffic for row in rows), Traffic())
    return replace(
        longest,
        prediction=replace(longest.prediction, traffic=total),
        lower_bound=any(row.lower_bound for row in rows),
        notes=tuple(dict.fromkeys(note for row in rows for note in row.notes)),
    )


def _distinct(items: Iterable[Configuration]) -> list[Configuration]:
    """Each configuration once."""
    distinct: list[Configuration] = []
    for item in items:
        if item not in distinct:
            distinct.append(item)
    return distinct


def _notes(question: LayerQuestion, space: Sequence[Configuration]) -> tuple[str, ...]:
    layer = question.layer
    notes = []
    if layer.experts:
        routing = question.routing
        said = f"by chances ~ rank^-{routing.skew:g}, seed {routing.seed}" if routing.skew else "all get as many"
        notes.append(f"experts: {said}; time is of both products, registers and bottleneck are of the longer one")
    if not question.old:
        notes.append(
            f"{len(space)} configurations of the engine's space fit; a rank by tiles chose which were predicted"
        )
    return tuple(notes)
