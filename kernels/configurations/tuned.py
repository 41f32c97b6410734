"""A launch of which several configurations are compared, and where Triton's autotuner keeps what it measured of them.

Source: `Autotuner.run` and `check_disk_cache` of Triton 3.6, which read `TRITON_CACHE_AUTOTUNING=1`.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from triton import Config
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from ...simulator.limits import WARP_THREADS
from .points import text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """One launch of which several configurations were recorded.

    Args:
        number: as `RecordedLaunch.tuned` has it; kernel: its name.
        key: what the author's autotuner tells shapes apart by, argument -> value; empty of a kernel without one.
        authors: labels of the configurations that the code itself names; the first is what runs untuned.
        cache_key: what Triton's autotuner keeps its timings on disk under, with data types; empty where it keeps none.
        cache: file where it looks for them, below Triton's cache; empty where it was not asked for.
    """

    number: int
    kernel: str
    key: Mapping[str, Any] = field(default_factory=dict)
    authors: tuple[str, ...] = ()
    cache_key: tuple[Any, ...] = ()
    cache: str = ""


def tuned_of(number: int, tuner: Autotuner, kwargs: Mapping[str, Any], configs: Sequence[Config]) -> Tuned:
    """What is to be kept of an autotuned launch, while `tuner.nargs` holds its positional arguments.

    Args:
        kwargs: keyword arguments; configs: what the author's own list leaves after pruning.
    """
    given = {name: value for name, value in {**tuner.nargs, **kwargs}.items() if name in tuner.arg_names}
    values = {name: given[name] for name in tuner.keys if name in given}
    cache_key = (*values.values(), *(str(value.dtype) for value in given.values() if hasattr(value, "dtype")))
    kept = bool(cache_key) and _fits_json(cache_key) and not any(config.pre_hook for config in configs)
    return Tuned(
        number=number,
        kernel=str(tuner.base_fn.__name__),
        key={name: _plain(value) for name, value in values.items()},
        authors=tuple(map(text_of, configs)),
        cache_key=cache_key if kept and len(configs) > 1 else (),
    )


def cache_file(tuner: Autotuner, key: Sequence[Any], configs: Sequence[Config], capability: int) -> str:
    """Where `Autotuner.check_disk_cache` looks for timings, below Triton's cache.

    Args:
        key: as `Tuned.cache_key`; configs: the author's own, pruned; capability: of the GPU, e.g. 90.
    """
    from triton.runtime.autotuner import get_cache_invalidating_env_vars, triton_key

    function = tuner.fn
    while not isinstance(function, JITFunction):
        function = function.fn
    parts = [
        triton_key(),
        make_backend(GPUTarget("cuda", capability, WARP_THREADS)).hash(),
        function.cache_key,
        str(sorted(get_cache_invalidating_env_vars().items())),
        str(tuple(key)),
        *map(str, configs),
    ]
    digest = hashlib.sha256("-".join(parts).encode()).digest()
    folder = base64.b32encode(digest).decode().rstrip("=")
    return f"{folder}/{function.__name__[:150]}.autotune.json"


def _fits_json(key: tuple[Any, ...]) -> bool:
    try:
        json.dumps(key)
    except (TypeError, ValueError):
        return False
    return True


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)
