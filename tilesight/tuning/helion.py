"""Predicted times for Helion's searches, in place of measured ones: any of its algorithms runs without a GPU.

    with tilesight.capture("h100"), compiling():
        args = torch.empty(4096, 4096, device="meta"), ...
        bound = kernel.bind(args)
        best = PatternSearch(bound, args, benchmark_provider_cls=predicted("h100")).autotune()

Source: `helion/autotuner/benchmark_provider.py` of Helion 1.5.1.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..predicting import capture, predict
from ..simulator.device.device import Device


class NoHelion(ImportError):
    """Helion is not installed; the text is one line."""


@contextmanager
def compiling() -> Iterator[None]:
    """In a block of `tilesight.capture`: leave tensors to Helion's own compiler, which has stand-ins of its own."""
    from ..kernels.front_ends.helion import compiling as left_to_helion

    with left_to_helion():
        yield


def predicted(device: Device | str = "h200", workers: int | None = None) -> type[Any]:
    """What `BaseSearch(benchmark_provider_cls=...)` takes.

    Args:
        device: that times are predicted for; workers: compiler processes at most, one per core where None.

    Returns:
        A `BenchmarkProvider` whose `perf` is the predicted time of all launches, each on empty caches [ms].

    Raises:
        NoHelion: as its text says.
    """
    try:
        from helion.autotuner.benchmark_provider import BenchmarkProvider, BenchmarkResult
    except ImportError as error:
        raise NoHelion(f"Helion is not installed: pip install helion ({error})") from None

    class Predicted(BenchmarkProvider):  # type: ignore[misc]
        """Configurations compiled by Helion, recorded, and predicted."""

        mutated_arg_indices: Sequence[int] = ()

        def __init__(self, kernel: Any, args: Sequence[object], **_: Any) -> None:
            self._kernel, self._args = kernel, args

        def setup(self) -> None:
            """Nothing to prepare."""

        def cleanup(self) -> None:
            """Nothing to release."""

        def benchmark(self, configs: list[Any], **_: Any) -> list[Any]:
            """A result for each configuration, in order; of those that cannot be predicted it is an error."""
            recorded = [self._recorded(config) for config in configs]
            launches = [launch for _, recording in recorded for launch in recording]
            rows = iter(predict(launches, device, l2="cold", workers=workers).rows if launches else ())
            results = []
            for config, (function, recording) in zip(configs, recorded, strict=True):
                config_rows = [next(rows) for _ in recording]
                known = bool(config_rows) and all(row.prediction for row in config_rows)
                perf = 1e3 * sum(row.traffic.time_s for row in config_rows) if known else float("inf")
                results.append(BenchmarkResult(config, function, perf, "ok" if known else "error", None))
            return results

        def _recorded(self, config: Any) -> tuple[Callable[..., object], list[Any]]:
            """The compiled function of a configuration, and what it launches; nothing where Helion refuses it."""
            try:
                function = self._kernel.compile_config(config, allow_print=False)
                with capture(device) as launches:
                    function(*self._args)
            except Exception:  # a search goes on, whatever one of its configurations raises
                return _refused, []
            return function, list(launches)

    return Predicted


def _refused(*_: object) -> object:
    raise RuntimeError("this configuration was refused")
