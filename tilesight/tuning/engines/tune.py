"""`tilesight tune --format vllm-moe` without its command line: a layer in, its best configurations per batch size out.

screen     the engine's configurations, by what tiles move
predict    the best of them with one group of rows of tiles, then the fastest few with every group
rank       by the sum of the layer's launches
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...predicting import refused_row
from ...simulator.prediction.kernel_row import KernelRow
from ...simulator.prediction.kernels import Request
from ...simulator.traffic import Traffic
from ..answers import Predict
from ..screening import KeepFraction
from ..tuning import Configured, TunedLaunch, Tuning, ranked
from .engine import BATCHES, GROUP, Configuration, Engine
from .layer import Layer, plain
from .routing import Routing
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
    first = [
        (batch, item)
        for batch in question.batches
        for item in _distinct([*_worthwhile(question, target, space, batch), untuned[batch]])
    ]
    configured = _answered(question, target, first, predict)
    if not question.old and len(engine.space[GROUP]) > 1:
        later = [
            (batch, item)
            for batch in question.batches
            for item in _other_groups(engine, [entry for entry in configured[batch] if entry.values != untuned[batch]])
            if item not in [entry.values for entry in configured[batch]]
        ]
        for batch, entries in _answered(question, target, later, predict).items():
            configured[batch] += entries
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
) -> list[Configuration]:
    if question.old:
        return list(space)
    groups = question.engine.space[GROUP]
    group = FIRST_GROUP if FIRST_GROUP in groups else groups[0]
    of_group = [item for item in space if item[GROUP] == group]
    return screened(of_group, question.layer, batch, question.routing, target.device, question.portion)


def _other_groups(engine: Engine, entries: Sequence[Configured]) -> list[Configuration]:
    """The fastest few with every group of rows of tiles."""
    fastest = [dict(entry.values) for entry in ranked(entries) if entry.row.prediction][:FINALISTS]
    return grouped(fastest, engine.space[GROUP])


def _answered(
    question: LayerQuestion, target: Request, asked: Sequence[Asked], predict: Predict
) -> dict[int, list[Configured]]:
    """Predictions of the layer under each configuration, by batch size."""
    from ...kernels.compile.call import KernelLaunch

    configured: dict[int, list[Configured]] = {batch: [] for batch in question.batches}
    if not asked:
        return configured
    recorded = _recorded(question, target, asked)
    calls = [call for function in recorded for call in function.calls if isinstance(call, KernelLaunch)]
    rows = iter(predict(calls))
    for (batch, item), function in zip(asked, recorded, strict=True):
        layer_rows = [next(rows) if isinstance(call, KernelLaunch) else refused_row(call) for call in function.calls]
        configured[batch].append(Configured(values=item, row=_together(layer_rows, function.ended), authors=False))
    return configured


def _recorded(question: LayerQuestion, target: Request, asked: Sequence[Asked]) -> "tuple[RecordedFunction, ...]":
    from ...kernels.capture.file import Asked as Recorded
    from ...kernels.capture.file import capture_calls

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
        for batch, item in asked
    )
    return capture_calls(
        LAUNCHES,
        Recorded(
            device=target.name,
            settings=question.settings,
            shapes=shapes,
            timeout_s=question.time_limit_s * len(question.batches),
        ),
    )


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


def _distinct(items: "Sequence[Configuration] | Iterator[Configuration] | Any") -> list[Configuration]:
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
