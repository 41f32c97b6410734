"""The options that commands share, in groups; and what they mean as problem, device and configuration.

A command takes a whole group as one parameter: `spread` turns it into the group's options for typer.
Values are read here, not by typer, so that every message names option, value and what is allowed.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from ..simulator.device.device import Device, catalogue, device_name, load_device, override
from ..simulator.problems.attention import DTYPE_BYTES, AttentionProblem
from ..simulator.schedules.contract import CTA_ORDERS, KV_ORDERS, SOFTMAX_VARIANTS, WARP_SPLITS, Schedule
from .given import Given, refuse_unread
from .output import BadInput, bad_input
from .parse import flag, number, one_of, option


def schedule_names() -> list[str]:
    """What `--schedule` can name."""
    from ..simulator.schedules.registry import all_schedules

    return ["all", *all_schedules()]


@dataclass(frozen=True, kw_only=True)
class ShapeOptions:
    """What to compute, but for its lengths."""

    batch: Annotated[int, option("--batch", "Sequences (B).")] = 4
    heads: Annotated[int, option("--heads", "Query heads (H).")] = 32
    kv_heads: Annotated[int | None, option("--kv-heads", "KV heads (G); must divide H.  [default: H]")] = None
    head_dim: Annotated[int, option("--head-dim", "Head dimension (D).")] = 64
    dtype: Annotated[str, option("--dtype", "Element type.", "|".join(DTYPE_BYTES), one_of(*DTYPE_BYTES))] = "fp16"
    causal: Annotated[bool, flag("--causal", "Causal mask, aligned to the last key (bottom right).")] = False
    dropout: Annotated[float, option("--dropout", "Dropout probability (unfused only).", "P", number)] = 0.0

    def of_lengths(self, seqlen_q: int, seqlen_k: int) -> AttentionProblem:
        """The problem. Raises: BadInput: a value is not allowed."""
        with bad_input(*(item.name for item in fields(AttentionProblem))):
            if self.kv_heads is not None and self.kv_heads < 1:
                raise ValueError(f"kv_heads = {self.kv_heads}: must be an integer of 1 or more")
            return AttentionProblem(
                batch=self.batch,
                heads=self.heads,
                kv_heads=self.kv_heads or 0,
                seqlen_q=seqlen_q,
                seqlen_k=seqlen_k,
                head_dim=self.head_dim,
                dtype=self.dtype,
                causal=self.causal,
                dropout=self.dropout,
            )


DEFAULT_SEQLEN = 4096


@dataclass(frozen=True, kw_only=True)
class ProblemOptions(ShapeOptions):
    """What to compute."""

    seqlen: Annotated[int | None, option("--seqlen", f"Length of queries and keys.  [default: {DEFAULT_SEQLEN}]")] = (
        None
    )
    seqlen_q: Annotated[int | None, option("--seqlen-q", "Query length (M).  [default: --seqlen]")] = None
    seqlen_k: Annotated[int | None, option("--seqlen-k", "Key length (N).  [default: --seqlen]")] = None

    def build(self) -> AttentionProblem:
        """The problem. Raises: BadInput: a value is not allowed, or changes nothing."""
        if self.seqlen is not None and self.seqlen < 1:
            raise BadInput(f"--seqlen = {self.seqlen}: must be an integer of 1 or more")
        if None not in (self.seqlen, self.seqlen_q, self.seqlen_k):
            raise BadInput(f"--seqlen {self.seqlen}: changes nothing beside --seqlen-q and --seqlen-k; leave it out")
        both = DEFAULT_SEQLEN if self.seqlen is None else self.seqlen
        with bad_input("seqlen"):
            return self.of_lengths(
                both if self.seqlen_q is None else self.seqlen_q, both if self.seqlen_k is None else self.seqlen_k
            )


DEFAULT_DEVICE = "h200"
DEVICE_DOC = "Name (see `tilesight devices`), or a path that ends in .toml."


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run it, and on what but for the device."""

    set_: Annotated[
        list[str] | None,
        option("--set", "What if: change a number of the device, e.g. l2_bytes=30MiB; repeatable.", "KEY=VALUE"),
    ] = None
    l2: Annotated[str, option("--l2", "L2 cache before the first launch.", "cold|warm", one_of("cold", "warm"))] = (
        "cold"
    )
    overhead: Annotated[
        str, option("--overhead", "How kernels are launched.", "stream|graph", one_of("stream", "graph"))
    ] = "stream"

    def notes(self) -> tuple[str, ...]:
        """A remark on every number that `--set` replaced."""
        return tuple(f"device changed by --set {setting}" for setting in self.set_ or [])


@dataclass(frozen=True, kw_only=True)
class MachineOptions(RunOptions):
    """What to run it on, and how."""

    device: Annotated[str, option("--device", DEVICE_DOC, "NAME|FILE", words=catalogue)] = DEFAULT_DEVICE

    def build(self) -> tuple[str, Device]:
        """The device, with what `--set` replaces. Raises: BadInput: as `device_given`, or several are named."""
        if len(_devices_in(self.device)) > 1:
            raise BadInput(f"--device {self.device!r}: must be one device here; try explore or compare")
        return device_given(self.device, self.set_)


@dataclass(frozen=True, kw_only=True)
class MachinesOptions(RunOptions):
    """What to run it on, one device or several, and how."""

    device: Annotated[
        list[str] | None,
        option(
            "--device",
            f"{DEVICE_DOC} Several, by commas or repeated, to compare.  [default: {DEFAULT_DEVICE}]",
            "NAME|FILE",
            words=catalogue,
        ),
    ] = None

    def build(self) -> dict[str, Device]:
        """The devices by name. Raises: BadInput: as `device_given`, or one is named twice."""
        found: dict[str, Device] = {}
        for given in [part for text in self.device or [DEFAULT_DEVICE] for part in _devices_in(text)]:
            name, device = device_given(given, self.set_)
            if name in found:
                raise BadInput(f"--device {given}: is {name}, which is given already; give it once")
            found[name] = device
        return found


def _devices_in(text: str) -> list[str]:
    """The names in a list with commas; a file may have commas in its own name."""
    return [text] if Path(text).is_file() else [part.strip() for part in text.split(",")]


def device_given(name: str, settings: Sequence[str] | None) -> tuple[str, Device]:
    """A device's full name, and the device with what `--set` replaces.

    Raises:
        BadInput: unknown name, key, or a value out of range.
    """
    try:
        return device_name(name), override(load_device(name), list(settings or []))
    except ValueError as error:
        text = str(error)
        raise BadInput(text if text.startswith("--set") else f"--device: {text}") from None


CONFIG_OPTIONS = {
    "block_m": ("INT", "Rows of a tile of scores (queries)."),
    "block_n": ("INT", "Columns of a tile of scores (keys)."),
    "num_warps": ("INT", "Warps per CTA."),
    "num_stages": ("INT", "Stages of the pipeline that loads K and V."),
    "cta_order": ("|".join(CTA_ORDERS), "Order in which CTAs start."),
    "kv_order": ("|".join(KV_ORDERS), "Direction in which query tiles read K and V."),
    "persistent": ("INT", "CTAs per SM of a persistent kernel; 0: not persistent."),
    "warp_split": ("|".join(WARP_SPLITS), "How the warps of a CTA split a tile: by queries (q) or by keys (k)."),
    "softmax_variant": ("|".join(SOFTMAX_VARIANTS), "Algorithm of a stand-alone row softmax."),
    "warp_specialize": ("INT", "1: warp-specialized, some warps load, others compute (flash2_tma only)."),
}


def config_option(name: str, several: bool = False) -> Any:
    """The typer option of a field of `Config`. Args: several: whether it takes a comma list."""
    metavar, doc = CONFIG_OPTIONS[name]
    return typer.Option(f"--{name.replace('_', '-')}", help=doc, metavar=f"{metavar},..." if several else metavar)


@dataclass(frozen=True, kw_only=True)
class ConfigOptions:
    """The choices of a schedule, as texts; None leaves the choice to the schedule."""

    block_m: Annotated[str | None, config_option("block_m")] = None
    block_n: Annotated[str | None, config_option("block_n")] = None
    num_warps: Annotated[str | None, config_option("num_warps")] = None
    num_stages: Annotated[str | None, config_option("num_stages")] = None
    cta_order: Annotated[str | None, config_option("cta_order")] = None
    kv_order: Annotated[str | None, config_option("kv_order")] = None
    persistent: Annotated[str | None, config_option("persistent")] = None
    warp_split: Annotated[str | None, config_option("warp_split")] = None
    softmax_variant: Annotated[str | None, config_option("softmax_variant")] = None
    warp_specialize: Annotated[str | None, config_option("warp_specialize")] = None

    def chosen(self) -> dict[str, int | str]:
        """One value for each option that the user gave."""
        return {name: values[0] for name, values in self.lists().items()}

    def lists(self) -> dict[str, tuple[int | str, ...]]:
        """All values of each option that the user gave, in order and without repeats.

        Raises:
            BadInput: no whole number where one is needed, or an empty list.
        """
        return {name: _values(name, text, self) for name in CONFIG_OPTIONS if (text := getattr(self, name)) is not None}


@dataclass(frozen=True, kw_only=True)
class SpaceOptions(ConfigOptions):
    """The same with several values each, as a comma list."""

    block_m: Annotated[str | None, config_option("block_m", several=True)] = None
    block_n: Annotated[str | None, config_option("block_n", several=True)] = None
    num_warps: Annotated[str | None, config_option("num_warps", several=True)] = None
    num_stages: Annotated[str | None, config_option("num_stages", several=True)] = None
    cta_order: Annotated[str | None, config_option("cta_order", several=True)] = None
    kv_order: Annotated[str | None, config_option("kv_order", several=True)] = None
    persistent: Annotated[str | None, config_option("persistent", several=True)] = None
    warp_split: Annotated[str | None, config_option("warp_split", several=True)] = None
    softmax_variant: Annotated[str | None, config_option("softmax_variant", several=True)] = None
    warp_specialize: Annotated[str | None, config_option("warp_specialize", several=True)] = None


def _values(name: str, text: str, group: ConfigOptions) -> tuple[int | str, ...]:
    several = isinstance(group, SpaceOptions)
    dashed = f"--{name.replace('_', '-')}"
    parts = [part.strip() for part in text.split(",")] if several else [text]
    if CONFIG_OPTIONS[name][0] != "INT":
        return tuple(dict.fromkeys(parts))
    try:
        return tuple(dict.fromkeys(int(part) for part in parts))
    except ValueError:
        allowed = "whole numbers, separated by commas" if several else "a whole number"
        raise BadInput(f"{dashed} = {text!r}: must be {allowed}") from None


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Let typer see the options of a command's groups in place of the groups."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command).parameters.values():
        group = hints[parameter.name]
        if not (inspect.isclass(group) and issubclass(group, (ShapeOptions, RunOptions, ConfigOptions))):
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=group))
            continue
        groups[parameter.name] = group
        types = get_type_hints(group, include_extras=True)
        for item in fields(group):
            default = inspect.Parameter.empty if item.default is MISSING else item.default
            parameters.append(
                inspect.Parameter(
                    item.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=types[item.name]
                )
            )

    def spread_command(**values: Any) -> None:
        built = {
            name: group(**{item.name: values.pop(item.name) for item in fields(group)})
            for name, group in groups.items()
        }
        command(**built, **values)

    spread_command.__name__, spread_command.__doc__ = command.__name__, command.__doc__
    spread_command.__annotations__ = {item.name: item.annotation for item in parameters}
    spread_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return spread_command


Registers = Annotated[int | None, option("--registers", "Registers per thread, instead of the kernel's.")]
SmemBytes = Annotated[int | None, option("--smem-bytes", "Shared memory per CTA in bytes, instead of the kernel's.")]
Compiled = Annotated[
    bool,
    flag("--compiled", "Compile all kernels with the Triton installed here, not from the library; needs no GPU."),
]
COSTS = ("compiled", "tiles")
Cost = Annotated[
    str | None,
    option(
        "--cost",
        "Registers, shared memory and cycles: from machine code, or estimated from tile sizes.  [default: compiled]",
        "|".join(COSTS),
        one_of(*COSTS),
    ),
]

OneSchedule = Annotated[str, option("--schedule", "Algorithm and loop order.", "NAME", words=schedule_names)]
Schedules = Annotated[
    list[str] | None,
    option(
        "--schedule",
        "Algorithm and loop order; `all`: every attention schedule; repeatable.",
        "NAME",
        words=schedule_names,
    ),
]
Workers = Annotated[
    int | None, option("--workers", "Threads, or compiler processes, at a time.  [default: one per core]")
]


def one_device(devices: Sequence[str] | dict[str, Device], **files: object) -> None:
    """See that no file of one device is asked for where there are several. Raises: BadInput: one is."""
    for name, file in files.items():
        if file is not None and len(devices) > 1:
            given = ", ".join(devices)
            raise BadInput(f"--{name} {str(file)!r}: shows one device, not {given}; run once for each --device")


def refuse_unread_shape(typed: Given, schedules: Sequence[Schedule]) -> None:
    """See that what is computed depends on every option of the problem. Raises: BadInput: on one it does not."""
    unread = set(schedules[0].unread).intersection(*(item.unread for item in schedules))
    options = [f"--{item.name.replace('_', '-')}" for item in fields(ShapeOptions) if item.name in unread]
    named = ", ".join(item.name for item in schedules)
    refuse_unread(typed, options, f"for schedule{'s' if len(schedules) > 1 else ''} {named}")


def workers_given(workers: int | None) -> int:
    """How many processes to use at most. Raises: BadInput: less than one."""
    from ..simulator.jobs.pool import cores

    if workers is not None and workers < 1:
        raise BadInput(f"--workers = {workers}: must be an integer of 1 or more")
    return workers or cores()
