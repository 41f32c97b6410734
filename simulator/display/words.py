"""Configurations, counts and shares in words, as every table and text says them."""

from collections.abc import Mapping

from ..schedules.config import Config
from ..schedules.registry import all_options


def config_text(config: Mapping[str, object]) -> str:
    """A configuration in words, e.g. `128 x 64, 4 warps, 2 stages, m-fast`. Args: config: option -> value."""
    words = []
    rest = dict(config)
    if "block_m" in rest and "block_n" in rest:
        words.append(f"{rest.pop('block_m')} x {rest.pop('block_n')}")
    if "num_warps" in rest:
        words.append(plural(int(str(rest.pop("num_warps"))), "warp"))
    if "num_stages" in rest:
        words.append(plural(int(str(rest.pop("num_stages"))), "stage"))
    if not rest.get("persistent", 1):
        rest.pop("persistent")
    words += [f"{name.replace('_', ' ')} {value}" for name, value in rest.items()]
    return ", ".join(words)


def short_config(config: Config) -> str:
    """The same without options that are as in most configurations."""
    usual = {name: option.usual for name, option in all_options().items()}
    return config_text({name: value for name, value in config.named().items() if usual.get(name) != value})


def plural(count: int, noun: str) -> str:
    """A count and its noun, e.g. `1 warp`, `4 warps`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def percent(fraction: float) -> str:
    """A share as text: `52 %`, `0.4 %`."""
    value = 100 * fraction
    return f"{value:.1f} %" if 0 < value < 9.95 else f"{value:.0f} %"
