"""In which rounds an engine's configurations are predicted, where times are made up."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from support.killed_sweeps import call_of
from support.made_rows import row_of
from tilesight.kernels.capture import file
from tilesight.kernels.capture.file import RecordedFunction
from tilesight.kernels.compile.call import KernelLaunch
from tilesight.simulator.device.device import load_device
from tilesight.simulator.prediction.kernel_row import KernelRow
from tilesight.simulator.prediction.kernels import Request

from tilesight.tuning.engines.engine import ENGINES, GROUP, Configuration
from tilesight.tuning.engines.layer import Layer
from tilesight.tuning.engines.routing import Routing
from tilesight.tuning.engines.screen import PORTION, screened, tried
from tilesight.tuning.engines.tune import LayerQuestion, tune_layer
from tilesight.tuning.screening import SURE
from tilesight.tuning.tuning import ALIKE

MIXTRAL, VLLM, BATCH = Layer(n=7168, k=4096, experts=8, topk=2), ENGINES["vllm-moe"], 4096
TARGET = Request(device=load_device("h100"), name="h100-sxm")


def key(item: Configuration) -> tuple[tuple[str, int], ...]:
    """A configuration, its group aside: it has no time of its own here."""
    return tuple(sorted((name, value) for name, value in item.items() if name != GROUP))


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Configuration]:
    """Configurations in the order in which they are recorded, a launch each."""
    items: list[Configuration] = []

    def capture(target: str, asked: Any) -> tuple[RecordedFunction, ...]:
        functions = []
        for shape in asked.shapes:
            functions.append(RecordedFunction(calls=(call_of(len(items)),), notes=(), operations=(), ended=""))
            items.append(shape["config"])
        return tuple(functions)

    monkeypatch.setattr(file, "capture_calls", capture)
    return items


def test_only_what_can_win_is_predicted_and_all_is_recorded_once(recorded: list[Configuration]) -> None:
    """Where a launch takes twice what its units do, one beyond 1.03 / 0.8 of the fastest cannot win: it is left out."""
    space = [item for item in tried(VLLM, MIXTRAL, TARGET.device)[0] if item[GROUP] == 16]
    static = {key(item): time_s for item, time_s in screened(space, MIXTRAL, BATCH, Routing(), TARGET.device)}
    rounds: list[list[Configuration]] = []

    def predict(calls: Sequence[KernelLaunch]) -> list[KernelRow]:
        rounds.append([recorded[call.grid[0] - 1] for call in calls])
        return [row_of(2 * static.get(key(item), 1.0)) for item in rounds[-1]]

    tuned = tune_layer(LayerQuestion(engine=VLLM, layer=MIXTRAL, batches=(BATCH,), time_limit_s=1.0), TARGET, predict)
    least = min(static.values())
    first, second, groups = ([key(item) for item in items] for items in rounds)
    assert set(first) >= {*list(static)[: PORTION.first]}
    can_win = {item for item, time_s in static.items() if SURE * time_s <= (1 + ALIKE) * least}
    assert can_win <= {*first, *second} and set(second) == can_win - {*first}
    assert len({*first, *second}) < len(static)
    assert Counter(groups).most_common(1)[0][1] == len(VLLM.space[GROUP]) - 1
    assert max(Counter(map(str, recorded)).values()) == 1
    assert tuned.launches[0].configured[0].row.traffic.time_s == pytest.approx(2 * least)
