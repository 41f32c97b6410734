"""Tilesight: where every byte and cycle of an attention kernel goes, before you own the GPU."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# The names of the house, and the room each lives in. They load on first use, so that `import tilesight` is quick.
_ROOMS = {
    "AttentionProblem": "problem",
    "Config": "schedule",
    "Device": "device",
    "DoesNotFit": "occupancy",
    "Exploration": "explore",
    "Prediction": "prediction",
    "Scaling": "scaling",
    "all_schedules": "registry",
    "compare": "scaling",
    "explore": "explore",
    "load_device": "device",
    "simulate": "simulate",
    "simulate_with_timeline": "simulate",
}

__all__ = [
    "AttentionProblem",
    "Config",
    "Device",
    "DoesNotFit",
    "Exploration",
    "Prediction",
    "Scaling",
    "all_schedules",
    "compare",
    "explore",
    "load_device",
    "simulate",
    "simulate_with_timeline",
]

if TYPE_CHECKING:
    from .simulator.device import Device as Device
    from .simulator.device import load_device as load_device
    from .simulator.explore import Exploration as Exploration
    from .simulator.explore import explore as explore
    from .simulator.occupancy import DoesNotFit as DoesNotFit
    from .simulator.prediction import Prediction as Prediction
    from .simulator.problem import AttentionProblem as AttentionProblem
    from .simulator.registry import all_schedules as all_schedules
    from .simulator.scaling import Scaling as Scaling
    from .simulator.scaling import compare as compare
    from .simulator.schedule import Config as Config
    from .simulator.simulate import simulate as simulate
    from .simulator.simulate import simulate_with_timeline as simulate_with_timeline


def __getattr__(name: str) -> object:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f".simulator.{_ROOMS[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})
