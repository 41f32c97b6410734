"""`max_autotune`: a vendor's kernel, or which Triton template, and whether it fuses what follows; by predicted times.

torch's own code chooses, and fuses: only what it would time is predicted in its place.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from math import inf, isfinite, prod
from typing import Any

from ....simulator import units
from ....simulator.device.device import Device
from ....simulator.operations.tiled import Tiled, tiled_s
from ...capture.recorded import RecordedLaunch
from ..hooks import replace
from ..triton_launches import TritonLaunches
from .trials import Launched, Times, Trials

MOST_PREDICTED = 3
"""Templates of a product that are predicted, the first by a rough estimate: each takes its compiler, and seconds. Of
eight products on an H100 the chosen of two took 1.014 of the fastest of all 19 in the mean, of three 1.001."""
MS_PER_S = 1e3
SELECTOR = "torch._inductor.select_algorithm:AlgorithmSelectorCache"
SCHEDULING = "torch._inductor.codegen.triton:TritonScheduling"
MOST_TRIED = 6
"""Configurations of a kernel that are tried beyond the listed ones."""
LEAST_S = 4e-6
"""Kernels that take less are not searched [s]: most of that is their launch and one trip to memory."""
CLOSE = 1.3
"""Nor are those that take up to this many times what their tensors take at HBM's bandwidth: little can be won."""


class Descent:
    """Searches. Args: device: that is spoken of; times: predicts launches; notes: of the recording."""

    def __init__(self, device: Device, times: Times, notes: dict[str, None]) -> None:
        self._device, self._times, self._notes = device, times, notes
        self._known: dict[Any, list[Any]] = {}

    def beyond(self, tuner: Any, capture: Callable[[Any], RecordedLaunch]) -> list[Any]:
        """Configurations of a kernel that were tried, in order; none where Inductor does not search.

        Args:
            tuner: Inductor's, of the kernel; capture: its launch in a configuration.
        """
        if not tuner.inductor_meta.get("coordinate_descent_tuning") or not _is_searched(tuner):
            return []
        if tuner not in self._known:
            self._known[tuner] = self._tried(tuner, tuner.configs, capture)
        return self._known[tuner]

    def _tried(self, tuner: Any, listed: Sequence[Any], capture: Callable[[Any], RecordedLaunch]) -> list[Any]:
        captures = [capture(config) for config in listed]
        times = [inf if time is None else time for time in self._times(captures)]
        best = min(range(len(listed)), key=lambda place: times[place])
        tensors = captures[0].tensors.values()
        moved = sum(min(prod(made.shape) * made.dtype.itemsize, made.storage_bytes) for made in tensors)
        if not max(LEAST_S, CLOSE * moved / self._device.hbm_peak_bytes_per_s) <= times[best] < inf:
            return []
        tried: list[Any] = []

        def timed(config: Any) -> float:
            if len(tried) == MOST_TRIED:
                self._notes[
                    f"coordinate_descent_tuning: of each kernel {MOST_TRIED} configurations are tried beyond the "
                    "listed ones; on a GPU the search may go on"
                ] = None
                return inf
            tried.append(config)
            (time_s,) = self._times([capture(config)])
            return inf if time_s is None else time_s

        tuner.coordesc_tuner.autotune(timed, listed[best], times[best])
        return tried


class Selection:
    """Times for choices. `used`: whether any was chosen.

    Args:
        device: that is spoken of; times: predicts Triton kernels; notes: of the recording.
    """

    def __init__(self, launches: TritonLaunches, device: Device, times: Times, notes: dict[str, None]) -> None:
        self._trials, self._device, self._notes = Trials(launches, device, times), device, notes
        launches.beyond = Descent(device, times, notes).beyond
        self.used = False
        self._known: dict[tuple[str, ...], list[float]] = {}
        self._fused: dict[str, float] = {}

    def hook(self, stack: ExitStack) -> None:
        """Stand in for what times choices. Raises: UserError: this torch lacks a hook."""

        def autotune(cache: Any, *args: Any, **kwargs: Any) -> dict[Any, float]:
            given = signature.bind(cache, *args, **kwargs).arguments
            return self._timings(given["name"], given["choices"])

        def benchmark(_: Any, module: Any, *__: Any, **___: Any) -> tuple[float, str]:
            return self._of_module(module) * MS_PER_S, module.__file__

        signature = inspect.signature(replace(stack, f"{SELECTOR}.do_autotuning", autotune))
        replace(stack, f"{SELECTOR}.make_precompile_fn", lambda *_, **__: dict)  # nothing is compiled here
        replace(stack, f"{SCHEDULING}.benchmark_codegened_module", benchmark)

    def _timings(self, name: str, choices: Sequence[Any]) -> dict[Any, float]:
        """Times of choices, as torch measures them [ms]; infinite: none is known."""
        self.used = True
        key = tuple(choice.hash_key() for choice in choices)
        if key not in self._known:
            self._known[key] = self._predicted(name, choices)
        return {choice: time_s * MS_PER_S for choice, time_s in zip(choices, self._known[key], strict=True)}

    def _predicted(self, name: str, choices: Sequence[Any]) -> list[float]:
        ranks = {place: _rank(choice, self._device) for place, choice in enumerate(choices) if _is_template(choice)}
        best = sorted(ranks, key=lambda place: ranks[place])[:MOST_PREDICTED]
        tried = [place for place in range(len(choices)) if place in best or place not in ranks]
        times = self._trials.times_s([self._launched(choices[place]) for place in tried])
        answers = dict.fromkeys(range(len(choices)), inf) | dict(zip(tried, times, strict=True))
        self._note(name, choices, ranks, answers)
        return [answers[place] for place in range(len(choices))]

    def _launched(self, choice: Any) -> Launched | None:
        request = _request(choice)
        if request is None:
            return None

        def prepare() -> Any:
            inputs = [meta.to_tensor() for meta in request.input_tensor_meta]
            return request.make_run_fn(*inputs, out=request.output_tensor_meta.to_tensor())

        return self._trials.launched(prepare)

    def _of_module(self, module: Any) -> float:
        """What a kernel takes that is written on trial, e.g. a template with all that follows it [s]."""

        def prepare() -> Any:
            given = module.get_args()
            return lambda: module.call(given)

        if module.__file__ not in self._fused:
            (self._fused[module.__file__],) = self._trials.times_s([self._trials.launched(prepare)])
        return self._fused[module.__file__]

    def _note(self, name: str, choices: Sequence[Any], ranks: Mapping[int, Any], times: Mapping[int, float]) -> None:
        """Say what was weighed against what."""
        request = _request(choices[0])
        sizes = ["x".join(map(str, meta.sizes)) for meta in request.input_tensor_meta] if request else []
        shown = sizes[-2:] if "mm" in name else sizes[:2]
        known = {place: time_s for place, time_s in times.items() if isfinite(time_s)}
        library = min((time_s for place, time_s in known.items() if place not in ranks), default=None)
        template = min((time_s for place, time_s in known.items() if place in ranks), default=None)
        predicted = f"{len([place for place in known if place in ranks])} of {len(ranks)} templates"
        texts = [f"the library takes {units.duration(library)}" if library is not None else "the library has no price"]
        if template is not None:
            texts.append(f"the best of {predicted} {units.duration(template)}")
        elif ranks:
            texts.append(f"none of {len(ranks)} templates is predicted")
        if others := len([place for place in times if place not in ranks and place not in known]):
            texts.append(f"other choices that nobody can price: {others}")
        self._notes[f"max-autotune: {name} of {' and '.join(shown)}: {', '.join(texts)}"] = None


def _request(choice: Any) -> Any:
    """What would time a choice: its module, its tensors; None: it is a graph of operations, or of another language."""
    try:
        return choice.bmreq
    except (AttributeError, AssertionError):
        return None


def _is_template(choice: Any) -> bool:
    return "BLOCK_M" in getattr(choice, "log_info", {})


def _rank(choice: Any, device: Device) -> float:
    """A rough estimate of a template's time, by its tiles; 0 where it multiplies no matrices."""
    info = choice.log_info
    block_k = int(str(info["tile_shape"]).strip("()").split(",")[1])
    try:
        matrices = [[int(size) for size in node.get_size()] for node in choice.input_nodes][-2:]
    except TypeError:  # a size is a symbol
        return 0.0
    if len(matrices) < 2 or any(len(sizes) not in (2, 3) for sizes in matrices) or block_k < 1:
        return 0.0
    (*batch, m, k), n = matrices[0], matrices[1][-1]
    return tiled_s(
        Tiled(
            batch=batch[0] if batch else 1,
            m=m,
            n=n,
            k=k,
            block_m=int(info["BLOCK_M"]),
            block_n=int(info["BLOCK_N"]),
            block_k=block_k,
            num_warps=int(info["num_warps"]),
            num_stages=int(info["num_stages"]),
            item_bytes=choice.input_nodes[-1].get_dtype().itemsize,
        ),
        device,
    )


def _is_searched(tuner: Any) -> bool:
    return bool(getattr(tuner, "_should_coordesc_tune", True)) and hasattr(tuner, "coordesc_tuner")
