"""A GPU as the engine sees it: one frozen value, every number with a unit, a source and a kind.

Device files are TOML, one line a number: `l2_bytes = { value = 62914560, kind = "measured", source = "..." }`.
`load_device("h200")` reads the folder `catalogue/`, `load_device("path/to/file.toml")` any other file;
names may be short and in any case: `H100` is `h100-sxm`, `RTX 4090` is `rtx-4090`.
What belongs to the architecture stands in `sm/` and `torch_kernels/`; a table `[sm]` replaces single numbers of it.
A what-if is `dataclasses.replace(device, l2_bytes=...)` or `--set l2_bytes=...` (`what_if`).
"""

import re
import tomllib
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from ..arguments import instance, shown
from ..dtypes import DTYPES
from ..names import unknown
from .host import USUAL, Host
from .numbers import Provenance, check_keys, check_number, names_in, number, numbers_of, plain, read_entry, text_in
from .sm_numbers import SM_TABLE, SmNumbers, sm_of
from .torch_kernels import TORCH_TABLE, TorchKernels, kernels_of

ALIASES = {
    "h100": "h100-sxm",
    "h100sxm5": "h100-sxm",
    "h10080gb": "h100-sxm",
    "h10080gbhbm3": "h100-sxm",
    "h200sxm": "h200",
    "b200sxm": "b200",
    "a100": "a100-sxm-80gb",
    "a100sxm": "a100-sxm-80gb",
    "a10080gb": "a100-sxm-80gb",
    "a100sxm480gb": "a100-sxm-80gb",
    "a10040gb": "a100-sxm-40gb",
    "a100sxm440gb": "a100-sxm-40gb",
    "4090": "rtx-4090",
    "5090": "rtx-5090",
    "3090": "rtx-3090",
    "rtxpro6000blackwell": "rtx-pro-6000",
    "dgxspark": "gb10",
}
"""Another name, squashed -> the one in the catalogue that people mostly mean."""
MAKERS = ("nvidia", "geforce", "tesla")
"""Words of product names that tell no device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Figures of one GPU. Rates per cycle are per SM clock cycle; a rate of 0 means the GPU has no such unit.

    Raises:
        ValueError: a number is out of its physical range; the text names field, value and range.
    """

    name: str
    compute_capability: str
    product: str = ""
    """Part of the product name that its driver reports; empty: it is not looked for."""
    held_against: str = ""
    public_tables: str = ""
    """Where predictions are held against its own counters, and which against public tables; empty: none was."""
    sms: int = number(1, 1024, "streaming multiprocessors")
    boost_clock_hz: float = number(1e8, 1e10, "SM clock when power allows")
    gpc_clock_spread: float = number(
        0, 0.1, "by how much the clocks of its clusters of SMs differ: standard deviation over mean"
    )
    tensor_boost_clock_hz: float = number(1e8, 1e10, "the same for launches with tensor instructions")
    tensor_rest_cycles: float = number(1, 1e9, "without tensor instructions for so long, the SM clock rises again")
    tensor_restart_s: float = number(0, 1e-3, "time that the first of them then costs")
    tensor_clock_hz: float = number(1e8, 1e10, "SM clock sustained while the tensor cores are busy all the time")
    mixed_clock_hz: float = number(1e8, 1e10, "the same while device memory is busy as well")
    power_limit_w: float = number(1, 1e4, "board power limit")

    registers_per_sm: int = number(1024, 1 << 22, "32-bit registers of an SM")
    max_registers_per_thread: int = number(16, 1024, "most registers of a thread")
    max_warps_per_sm: int = number(1, 1024, "most resident warps of an SM")
    max_ctas_per_sm: int = number(1, 1024, "most resident CTAs of an SM")
    max_threads_per_cta: int = number(32, 1 << 16, "most threads of a CTA")
    smem_per_sm_bytes: int = number(1024, 1 << 24, "most shared memory of an SM")
    smem_per_cta_bytes: int = number(1024, 1 << 24, "most shared memory of a CTA")
    smem_reserved_per_cta_bytes: int = number(0, 1 << 16, "shared memory the system keeps per CTA")
    l1_bytes: int = number(1024, 1 << 24, "L1 and shared memory of an SM together")
    l1_latency_cycles: float = number(1, 1e4, "latency of a load that hits L1")
    sm_fill_bytes_per_cycle: float = number(1, 1e4, "bytes an SM takes in from L2 per cycle")

    l2_bytes: int = number(1 << 16, 1 << 34, "L2 capacity, all partitions together")
    l2_dirty_fraction: float = number(0.01, 1, "most of L2 that holds data not yet written to device memory")
    l2_set_spread: float = number(0, 0.2, "how unevenly data fall on the sets of L2: standard deviation over mean")
    l2_partitions: int = number(1, 2, "L2 partitions; far data is copied into the near one")
    sector_bytes: int = number(32, 32, "unit of transfer")
    line_bytes: int = number(128, 128, "unit of cache tags")
    l2_bytes_per_s: float = number(1e10, 1e15, "L2 read bandwidth, all partitions; joined reads count once")
    l2_write_bytes_per_s: float = number(1e10, 1e15, "L2 write bandwidth, all partitions")
    l2_latency_cycles: float = number(1, 1e5, "latency of a load that hits the near L2 partition")
    fabric_bytes_per_s: float = number(1e10, 1e15, "bandwidth between the L2 partitions, both directions together")
    fabric_latency_cycles: float = number(0, 1e5, "extra latency of the far L2 partition")
    l2_slices: int = number(0, 1024, "slices of L2 that add side by side; 0: not known", optional=True)
    l2_slice_block_bytes: int = number(0, 1 << 20, "that lie together in one slice of L2; 0: a line", optional=True)
    l2_slice_group_bytes: int = number(
        0, 1 << 20, "that lie in two slices, block by block in turns; 0: a block", optional=True
    )
    l2_slice_stretch_bytes: int = number(0, 1 << 30, "in which no slice of L2 comes twice; 0: a block", optional=True)
    l2_add_sector_s: float = number(0, 1e-6, "that a slice takes to add to a sector", optional=True)
    l2_add_part_s: float = number(0, 1e-6, "the same of a part of a sector", optional=True)
    l2_add_again_s: float = number(
        0, 1e-6, "that floats take it at least where the addition before was to the same place", optional=True
    )
    l2_add_far_s: float = number(0, 1e-6, "that a sector takes a slice of the SM's own partition", optional=True)
    l2_given_back_bytes_per_s: float = number(0, 1e15, "what atomics give back, all of L2", optional=True)
    coalescer_sms: int = number(1, 1024, "neighbouring SMs whose simultaneous reads reach L2 once")

    hbm_bytes: int = number(1 << 28, 1 << 44, "device memory")
    hbm_peak_bytes_per_s: float = number(1e10, 1e15, "device memory bandwidth of the datasheet")
    hbm_read_bytes_per_s: float = number(1e10, 1e15, "achievable read bandwidth")
    hbm_write_bytes_per_s: float = number(1e10, 1e15, "achievable write bandwidth")
    hbm_channels: int = number(1, 4096, "servers that share it; 4 KiB in a row come from one")
    hbm_mixed_fraction: float = number(0.1, 1, "share of the bandwidth while reads and writes take turns")
    hbm_part_line_fraction: float = number(0.1, 1, "share of it left to reads of less than a line of a row")
    hbm_single_line_fraction: float = number(0, 1, "the same, of one line of a row; 0: all of it", optional=True)
    hbm_piece_write_bytes: float = number(0, 1024, "bytes more that HBM takes to write a piece of a row")
    hbm_latency_s: float = number(1e-8, 1e-4, "what device memory adds to an L2 miss, its translation known")
    hbm_piece_latency_s: float = number(0, 1e-4, "by which a place comes sooner or later at most")
    hbm_turn_s: float = number(0, 1e-4, "how long a read waits where it meets device memory writing")

    mma_fp16_flop_per_cycle: float = number(0, 1e6, "mma.sync, fp16 or bf16, fp32 sums, per SM")
    mma_fp16_acc16_flop_per_cycle: float = number(0, 1e6, "the same, fp16 sums; 0: as fp32 sums", optional=True)
    mma_tf32_flop_per_cycle: float = number(0, 1e6, "mma.sync, tf32, per SM")
    mma_fp8_flop_per_cycle: float = number(0, 1e6, "mma.sync, fp8, fp32 sums, per SM", optional=True)
    mma_fp8_acc16_flop_per_cycle: float = number(0, 1e6, "the same, fp16 sums; 0: as fp32 sums", optional=True)
    mma_int8_flop_per_cycle: float = number(0, 1e6, "mma.sync, int8, int32 sums, per SM", optional=True)
    mma_fp64_flop_per_cycle: float = number(0, 1e6, "mma.sync, fp64, per SM", optional=True)
    mma_mxfp8_flop_per_cycle: float = number(
        0, 1e6, "mma.sync, fp8 with a scale for each block, per SM; 0: as fp8", optional=True
    )
    mma_mxfp4_flop_per_cycle: float = number(0, 1e6, "mma.sync, fp4 with a scale for each block, per SM", optional=True)
    wgmma_fp16_flop_per_cycle: float = number(0, 1e6, "wgmma, fp16 or bf16, per SM", optional=True)
    wgmma_tf32_flop_per_cycle: float = number(0, 1e6, "wgmma, tf32, per SM", optional=True)
    wgmma_fp8_flop_per_cycle: float = number(0, 1e6, "wgmma, fp8, per SM", optional=True)
    wgmma_int8_flop_per_cycle: float = number(0, 1e6, "wgmma, int8, int32 sums, per SM", optional=True)
    tcgen05_fp16_flop_per_cycle: float = number(0, 1e6, "tcgen05, fp16 or bf16, per SM", optional=True)
    tcgen05_tf32_flop_per_cycle: float = number(0, 1e6, "tcgen05, tf32, per SM", optional=True)
    tcgen05_fp8_flop_per_cycle: float = number(0, 1e6, "tcgen05, fp8, scaled or not, per SM", optional=True)
    tcgen05_int8_flop_per_cycle: float = number(0, 1e6, "tcgen05, int8, int32 sums, per SM", optional=True)
    tcgen05_mxfp4_flop_per_cycle: float = number(
        0, 1e6, "tcgen05, fp4 with a scale for each block, per SM", optional=True
    )
    fma_per_cycle: float = number(1, 1e4, "FP32 multiply-adds per SM")
    alu_per_cycle: float = number(1, 1e4, "integer, compare, select and max operations per SM")
    mufu_per_cycle: float = number(1, 1e4, "exponentials (MUFU) per SM")
    issue_per_cycle: float = number(1, 64, "warp instructions issued per SM")
    smem_bytes_per_cycle: float = number(1, 1e4, "shared-memory bandwidth per SM")

    launch_ramp_cycles: float = number(0, 1e6, "cycles of a launch before its first CTA and after its last one")
    cta_dispatch_cycles: float = number(0, 1000, "cycles from CTA to CTA that a GPU hands out to its SMs, at least")
    launch_stream_s: float = number(0, 1e-3, "time from kernel to kernel in a stream, at least")
    launch_graph_s: float = number(0, 1e-3, "the same inside a replayed CUDA graph")
    graph_gap_s: float = number(0, 1e-3, "between CTAs of two launches there; 0: not known", optional=True)
    nvlink_bytes_per_s: float = number(0, 1e14, "NVLink bandwidth out of a GPU; 0: it has none", optional=True)
    pcie_bytes_per_s: float = number(0, 1e12, "PCIe bandwidth out of a GPU; 0: no collectives by it", optional=True)

    sm: SmNumbers
    """What belongs to its architecture more than to the product: `device/sm/`, and the table [sm] of its file."""
    torch_kernels: TorchKernels
    """What kernels of torch and its libraries cost there: `device/torch_kernels/`, and tables of its file."""
    provenance: dict[str, Provenance] = field(default_factory=dict, compare=False, repr=False)
    host: Host = field(default=USUAL, compare=False, repr=False)

    @property
    def link_bytes_per_s(self) -> float:
        """Bandwidth out of a GPU to the others of its host: of NVLink, else of PCIe; 0: not known [B/s]."""
        return self.nvlink_bytes_per_s or self.pcie_bytes_per_s

    @property
    def capability(self) -> int:
        """Compute capability as a whole number, e.g. 90."""
        return int(self.compute_capability.replace(".", ""))

    def __repr__(self) -> str:
        """One line: its name and size; `tilesight devices NAME` shows every number."""
        return f"<Device: {self.name}, compute capability {self.compute_capability}, {self.sms} SMs>"

    def __post_init__(self) -> None:
        for name in TEXTS:
            instance(name, getattr(self, name), str, "'9.0'" if name == "compute_capability" else "'H200'")
        instance("sm", self.sm, SmNumbers, "load_device('h200').sm")
        instance("torch_kernels", self.torch_kernels, TorchKernels, "load_device('h200').torch_kernels")
        for item in number_fields():
            check_number(item, getattr(self, item.name))
        for small, large in _ORDERED:
            low, high = getattr(self, small), getattr(self, large)
            if low > high:
                raise ValueError(f"{small} = {low:g}: must be at most {large} = {high:g}")

    def tensor_flop_per_cycle(self, instruction: str, dtype: str) -> float:
        """Peak of an instruction class, per cycle and SM [FLOP]. Args: instruction: mma, wgmma or tcgen05; dtype."""
        return self.matmul_flop_per_cycle(instruction, DTYPES[dtype].tensor_rate)

    def fastest_flop_per_cycle(self, dtype: str) -> float:
        """The same of the fastest class that the device has [FLOP]; 0 where it has none for the type."""
        return self.fastest_of_kind(DTYPES[dtype].tensor_rate)

    def matmul_flop_per_cycle(self, instruction: str, kind: str) -> float:
        """The same of a kind of matmul: `sass.matrix.MatmulShape.kind`; 0: there is none [FLOP]."""
        rate = float(getattr(self, f"{instruction}_{kind}_flop_per_cycle", 0.0))
        return self.matmul_flop_per_cycle(instruction, SAME_RATE[kind]) if not rate and kind in SAME_RATE else rate

    def fastest_of_kind(self, kind: str) -> float:
        """The same of the fastest class [FLOP]."""
        return max(self.matmul_flop_per_cycle(instruction, kind) for instruction in INSTRUCTIONS)


SAME_RATE = {"fp16_acc16": "fp16", "fp8_acc16": "fp8", "mxfp8": "fp8"}
"""Kind of matmul -> the one whose rate it has where a device file says nothing of it."""
TEXTS = {"name": True, "compute_capability": True, "product": False, "held_against": False, "public_tables": False}
"""Keys of a device file that are no numbers, and whether they must be there."""
DEVICE_KEYS = "`tilesight devices h200 --all`"
"""The command that lists the keys of a device."""
INSTRUCTIONS = ("mma", "wgmma", "tcgen05")
_ORDERED = (
    ("mixed_clock_hz", "tensor_clock_hz"),
    ("tensor_clock_hz", "tensor_boost_clock_hz"),
    ("tensor_boost_clock_hz", "boost_clock_hz"),
    ("smem_per_cta_bytes", "smem_per_sm_bytes"),
    ("smem_per_sm_bytes", "l1_bytes"),
    ("hbm_read_bytes_per_s", "hbm_peak_bytes_per_s"),
    ("hbm_write_bytes_per_s", "hbm_peak_bytes_per_s"),
    ("launch_graph_s", "launch_stream_s"),
)


def number_fields() -> list:  # type: ignore[type-arg]
    """The numeric fields of `Device`, in order; `metadata` holds low, high, whole, optional and doc."""
    return numbers_of(Device)


def catalogue() -> list[str]:
    """Names that `load_device` knows, sorted."""
    return names_in("catalogue")


def squashed(name: str) -> str:
    """A name as people may write it, e.g. `NVIDIA RTX 4090` -> `rtx4090`: lower case, without maker and separators."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    return "".join(word for word in words if word not in MAKERS)


def device_name(name: str | PathLike[str]) -> str:
    """A device's name in the catalogue; a path that ends in `.toml` as it is.

    Args:
        name: in any case, with or without separators and maker, or one of `ALIASES`.

    Raises:
        ValueError: there is none of that name; the text names the nearest.
    """
    name = _text(name)
    if name.endswith(".toml"):
        return name
    known = catalogue()
    names = ALIASES | {squashed(entry): entry for entry in known}
    if squashed(name) not in names:
        said = unknown(name, known, "`tilesight devices`")
        raise ValueError(f"device {said} (or give a path that ends in .toml)")
    return names[squashed(name)]


def _text(name: object) -> str:
    """A name or path as text. Raises: ValueError: it is neither."""
    if isinstance(name, PathLike):
        name = fspath(name)
    if not isinstance(name, str):
        example = "a name such as 'h200', a path that ends in .toml, or what load_device() returns"
        raise ValueError(f"device = {shown(name)}: must be {example}")
    return name


def found_device(device: Device | str | PathLike[str]) -> tuple[Device, str]:
    """A GPU, and its name in the catalogue or as it was given. Raises: ValueError: as `load_device`."""
    if isinstance(device, Device):
        return device, device.name
    return load_device(device), device_name(device)


def device_of_product(product: str) -> str | None:
    """The catalogue's device of that product, by the name that the driver reports; None where there is none.

    The longest name counts, and all of a word: an `H100 PCIe` is no `H100`, an `L40S` no `L4`, a `GB200` no `B200`.
    """
    parts = {device.product: name for name in catalogue() if (device := load_device(name)).product}
    fitting = [part for part in parts if re.search(rf"(?<!\w){re.escape(part)}(?!\w)", product)]
    return parts[max(fitting, key=len)] if fitting else None


def load_device(name: str | PathLike[str]) -> Device:
    """Read a device by catalogue name, or from a TOML file.

    Args:
        name: e.g. `h200` (see `device_name`), or a path that ends in `.toml`.

    Raises:
        ValueError: unknown name, unreadable file, or a missing, misspelt or non-physical value
            (the text names file, key, value and allowed range).
    """
    name = _text(name)
    if name.endswith(".toml"):
        try:
            text = Path(name).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise ValueError(f"{name}: no such file; `tilesight devices` lists what can be named instead") from None
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise ValueError(f"{name}: cannot be read ({why})") from None
        return parse_device(text, name)
    known = device_name(name)
    return parse_device(text_in("catalogue", known), f"{known}.toml")


def parse_device(text: str, file: str) -> Device:
    """Build a `Device` from TOML text. Args: text; file: name for messages. Raises: ValueError as `load_device`."""
    try:
        return _device_of(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{file}: is not TOML: {error}") from None
    except RecursionError:
        raise ValueError(f"{file}: is not TOML: nested too deeply") from None
    except ValueError as error:  # tomllib also lets through what int() says of thousands of digits
        raise ValueError(f"{file}: {error}") from None


def _device_of(table: dict[str, Any]) -> Device:
    known = {item.name: item for item in number_fields()}
    allowed = {**known, **dict.fromkeys((SM_TABLE, TORCH_TABLE))}
    check_keys({key: entry for key, entry in table.items() if key not in TEXTS}, allowed, DEVICE_KEYS)
    values: dict[str, object] = {}
    for key, required in TEXTS.items():
        if not isinstance(table.get(key, None if required else ""), str):
            raise ValueError(f"key {key!r} is missing or no text" if required else f"key {key!r} is no text")
        values[key] = plain(key, table.get(key, ""))
    provenance = {}
    for key, item in known.items():
        if key not in table:
            if item.metadata["optional"]:
                continue
            raise ValueError(f"key {key!r} is missing ({item.metadata['doc']})")
        values[key], provenance[key] = read_entry(key, table[key])
    sm = sm_of(table["compute_capability"], table.get(SM_TABLE, {}))
    return Device(**values, sm=sm, torch_kernels=kernels_of(table), provenance=provenance)  # type: ignore[arg-type]
