"""What a test expects of a function's kernels: what it is called with in, checked values out."""

from dataclasses import dataclass

from ..simulator import units
from ..simulator.arguments import shown, truth
from .baselines import given_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a test expects.

    Args:
        limit_s: time that is allowed; None: any [s]. baseline: name of it; empty: there is none.
        share: by which it may be slower than that; partial: whether launches may be lacking.
    """

    limit_s: float | None
    baseline: str
    share: float
    partial: bool

    @property
    def limit_text(self) -> str:
        """The limit, e.g. `at most 120 us`; empty where there is none."""
        return "" if self.limit_s is None else f"at most {units.duration(self.limit_s)}"


def expected(at_most: object, baseline: object, usual: str, slower_than: object, partial: object) -> Expected:
    """What a test expects.

    Args:
        usual: name of a baseline where there is neither a limit nor another name; others as of `KernelTime.__call__`.

    Raises:
        ValueError: something is not allowed (one line).
    """
    name = usual if at_most is None else ""
    return Expected(
        limit_s=None if at_most is None else _seconds(at_most),
        baseline=name if baseline is None else given_name(baseline),
        share=_share(slower_than),
        partial=truth("partial", partial),
    )


def _seconds(at_most: object) -> float:
    said = f"at_most = {shown(at_most)}: must be a time above 0, such as '120 us', '1.5 ms' or 1.2e-4 (in s)"
    if isinstance(at_most, str):
        try:
            seconds = units.parse_duration(at_most)
        except ValueError:
            raise ValueError(said) from None
    else:
        seconds = _number(at_most, said)
    if not 0.0 < seconds < float("inf"):
        raise ValueError(said)
    return seconds


def _share(slower_than: object) -> float:
    said = f"slower_than = {shown(slower_than)}: must be a share from 0 to 1, such as 0.05 for 5 %"
    share = _number(slower_than, said)
    if not 0.0 <= share <= 1.0:
        raise ValueError(said)
    return share


def _number(value: object, said: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(said)
    return float(value)
