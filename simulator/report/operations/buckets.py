"""Steps of decoding in buckets: what padding to a bucket costs, and what a CUDA graph of it saves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ... import units
from ...display.render import Column, percent, table
from ...operations.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Sequences of a step, and tokens that the cache of each holds."""

    batch: int
    held: int

    def __str__(self) -> str:
        """As it is typed."""
        return f"{self.batch}x{self.held}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A size that others are padded to.

    Args:
        size, profile: of the bucket.
        least: the smallest step that is padded to it, just above the bucket before; least_profile: of it, unpadded.
    """

    size: Size
    profile: Profile
    least: Size | None = None
    least_profile: Profile | None = None

    @property
    def saved_s(self) -> float:
        """What a CUDA graph saves of a step [s]."""
        return self.profile.stream.end_s - self.profile.graph.end_s

    @property
    def padding_s(self) -> float | None:
        """What the smallest step takes more when it is padded, in CUDA graphs [s]; None: nothing is padded to it."""
        return self.profile.graph.end_s - self.least_profile.graph.end_s if self.least_profile else None

    def to_dict(self) -> dict[str, Any]:
        """Its object in `profile --json`."""
        return {
            "batch": self.size.batch,
            "held": self.size.held,
            "complete": self.profile.complete,
            "stream_s": self.profile.stream.end_s,
            "graph_s": self.profile.graph.end_s,
            "saved_s": self.saved_s,
            "padded_from": str(self.least) if self.least else None,
            "padding_s": self.padding_s,
            "peak_bytes": self.profile.peak_bytes,
            "fits": self.profile.fits,
        }


def least_above(before: Size, bucket: Size) -> Size | None:
    """The smallest size that is padded to a bucket and not to the one before; None: that is the bucket itself.

    Args:
        before, bucket: alike in batch or in what is held; where they are alike in neither, none is said.
    """
    if before.held == bucket.held and before.batch + 1 < bucket.batch:
        return Size(batch=before.batch + 1, held=bucket.held)
    if before.batch == bucket.batch and before.held + 1 < bucket.held:
        return Size(batch=bucket.batch, held=before.held + 1)
    return None


def buckets_of(sizes: Sequence[Size], run: Callable[[Size], Profile]) -> tuple[Bucket, ...]:
    """Buckets in order. Args: run: profiles a step."""
    made = []
    for before, size in zip([None, *sizes], sizes, strict=False):
        least = least_above(before, size) if before else None
        made.append(Bucket(size=size, profile=run(size), least=least, least_profile=run(least) if least else None))
    return tuple(made)


def buckets_text(buckets: Sequence[Bucket], width: int, color: bool = False) -> str:
    """A line for each bucket. Args: width: characters at most; color: whether the header is bold."""
    profiles = [bucket.profile for bucket in buckets]
    least = [str(bucket.least) if bucket.least else "-" for bucket in buckets]
    columns = [
        Column("bucket", [str(bucket.size) for bucket in buckets], left=True),
        Column("in a stream", [_time(made, made.stream.end_s) for made in profiles]),
        Column("in a graph", [_time(made, made.graph.end_s) for made in profiles]),
        Column("a graph saves", [_part(made.saved_s, made.profile.stream.end_s) for made in buckets]),
        Column("a sequence", [units.duration(made.profile.graph.end_s / made.size.batch) for made in buckets], rank=1),
        Column("padded from", least),
        Column("padding costs", [_padding(bucket) for bucket in buckets]),
        *(
            [Column("fits", ["yes" if made.fits else "no" for made in profiles], left=True)]
            if not all(made.fits for made in profiles)
            else []
        ),
    ]
    doubt = "" if all(made.complete for made in profiles) else "Incomplete: kernels without a price are missing below\n"
    return f"{doubt}Buckets: sequences x tokens that each holds\n{table(columns, width, color)}"


def _time(profile: Profile, time_s: float) -> str:
    return units.duration(time_s) if profile.complete else f">= {units.duration(time_s)}"


def _part(time_s: float, whole_s: float) -> str:
    return f"{units.duration(time_s)}, {percent(time_s / whole_s)}" if whole_s else "-"


def _padding(bucket: Bucket) -> str:
    if bucket.padding_s is None or bucket.least_profile is None:
        return "-"
    sign = "-" if bucket.padding_s < 0 else ""
    return sign + _part(abs(bucket.padding_s), bucket.least_profile.graph.end_s)
