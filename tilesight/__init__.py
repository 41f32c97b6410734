"""Tilesight: where every byte and cycle of an attention kernel goes, before you own the GPU."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# The public names, and the module each lives in. They load on first use, so that `import tilesight` is quick.
_ROOMS = {
    "AttentionBackwardProblem": "simulator.problems.attention_backward",
    "AttentionProblem": "simulator.problems.attention",
    "Config": "simulator.schedules.config",
    "Device": "simulator.device.device",
    "DoesNotFit": "simulator.refusal",
    "Exploration": "simulator.explore.explore",
    "Launch": "kernels.given.launch",
    "LatentAttentionProblem": "simulator.problems.latent_attention",
    "Prediction": "simulator.prediction.prediction",
    "Scaling": "simulator.explore.lengths",
    "SoftmaxProblem": "simulator.problems.softmax",
    "TrainingStep": "simulator.explore.training",
    "all_schedules": "simulator.schedules.registry",
    "autotune": "autotuning.autotune",
    "capture": "predicting",
    "compare": "simulator.explore.lengths",
    "compiler": "compiling",
    "diff": "diffing.diff",
    "explore": "simulator.explore.explore",
    "load_device": "simulator.device.device",
    "load_model": "simulator.models.catalogue",
    "model_problem": "simulator.models.catalogue",
    "predict": "predicting",
    "profile": "profiling",
    "prune": "autotuning.autotune",
    "runtime_estimation": "profiling",
    "simulate": "simulator.simulate",
    "simulate_with_timeline": "simulator.simulate",
    "training_step": "simulator.explore.training",
    "tune": "tuning.tune",
}

__all__ = [
    "AttentionBackwardProblem",
    "AttentionProblem",
    "Config",
    "Device",
    "DoesNotFit",
    "Exploration",
    "LatentAttentionProblem",
    "Launch",
    "Prediction",
    "Scaling",
    "SoftmaxProblem",
    "TrainingStep",
    "all_schedules",
    "autotune",
    "capture",
    "compare",
    "compiler",
    "diff",
    "explore",
    "load_device",
    "load_model",
    "model_problem",
    "predict",
    "profile",
    "prune",
    "runtime_estimation",
    "simulate",
    "simulate_with_timeline",
    "training_step",
    "tune",
]

if TYPE_CHECKING:
    from .autotuning.autotune import autotune as autotune
    from .autotuning.autotune import prune as prune
    from .compiling import compiler as compiler
    from .diffing.diff import diff as diff
    from .kernels.given.launch import Launch as Launch
    from .predicting import capture as capture
    from .predicting import predict as predict
    from .profiling import profile as profile
    from .profiling import runtime_estimation as runtime_estimation
    from .simulator.device.device import Device as Device
    from .simulator.device.device import load_device as load_device
    from .simulator.explore.explore import Exploration as Exploration
    from .simulator.explore.explore import explore as explore
    from .simulator.explore.lengths import Scaling as Scaling
    from .simulator.explore.lengths import compare as compare
    from .simulator.explore.training import TrainingStep as TrainingStep
    from .simulator.explore.training import training_step as training_step
    from .simulator.models.catalogue import load_model as load_model
    from .simulator.models.catalogue import model_problem as model_problem
    from .simulator.prediction.prediction import Prediction as Prediction
    from .simulator.problems.attention import AttentionProblem as AttentionProblem
    from .simulator.problems.attention_backward import AttentionBackwardProblem as AttentionBackwardProblem
    from .simulator.problems.latent_attention import LatentAttentionProblem as LatentAttentionProblem
    from .simulator.problems.softmax import SoftmaxProblem as SoftmaxProblem
    from .simulator.refusal import DoesNotFit as DoesNotFit
    from .simulator.schedules.config import Config as Config
    from .simulator.schedules.registry import all_schedules as all_schedules
    from .simulator.simulate import simulate as simulate
    from .simulator.simulate import simulate_with_timeline as simulate_with_timeline
    from .tuning.tune import tune as tune


def __getattr__(name: str) -> object:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f".{_ROOMS[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})
