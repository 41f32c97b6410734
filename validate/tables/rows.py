"""Rows of public tables of measured kernels, as the wheel `aiconfigurator-core` or its folder has them.

A table is a parquet file below `systems/data/GPU/OP/FRAMEWORK/VERSION/`. Nothing of it is kept here. Rows are split by
the sum of three of their sizes: constants may be fitted on `fit`, `check` is what shows whether they hold, and `test`
is for the figures that are published: a row's part follows from its problem, so all GPUs and frameworks share it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args
from zipfile import BadZipFile, ZipFile

from ...simulator.device.device import device_of_product

Kind = Literal["gemm", "prefill", "decode", "collective"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FILES: dict[Kind, str] = {
    "gemm": "gemm_perf",
    "prefill": "context_attention_perf",
    "decode": "generation_attention_perf",
    "collective": "nccl_perf",
}
ATTENTION = {
    "batch": "batch_size",
    "heads": "num_heads",
    "length": "isl",
    "key_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "window": "window_size",
}
SIZES: dict[Kind, dict[str, str]] = {
    "gemm": {name: name for name in ("m", "n", "k")},
    "prefill": ATTENTION,
    "decode": ATTENTION,
    "collective": {"elements": "message_size", "gpus": "num_gpus"},
}
"""Sizes of a problem -> columns. A token is decoded behind `step` others; all data of a collective on one GPU count."""
COLLECTIVE_ITEM_BYTES = {"half": 2, "int8": 1}
Part = Literal["fit", "check", "test"]
PARTS: tuple[Part, ...] = ("test", "fit", "fit", "check", "check")
"""By the sum of m, n and k, of sequences, heads and length, or of log2 of bytes and GPUs, modulo 5."""
NO_PYARROW = "pyarrow is not installed, which reads tables: pip install pyarrow"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A measured problem.

    Args:
        device: name in the catalogue; kind: of problem.
        source: kernel, as the table names it; framework: with its version; dtype: of operands, `cache-` before that of
            keys and values where it is another.
        sizes: by name (`SIZES`); time_s: of a call, from one to the next in a CUDA graph [s].
    """

    device: str
    kind: Kind
    source: str
    framework: str
    dtype: str
    sizes: dict[str, int]
    time_s: float

    @property
    def key(self) -> str:
        """The problem in words."""
        return " ".join(f"{name}={size}" for name, size in self.sizes.items())

    @property
    def part(self) -> Part:
        """Which part of the data it belongs to."""
        sizes = list(self.sizes.values())[:3]
        if self.kind == "collective":
            sizes[0] = (sizes[0] * COLLECTIVE_ITEM_BYTES[self.dtype]).bit_length() - 1
        return PARTS[sum(sizes) % len(PARTS)]


def read_rows(path: Path, kind: Kind, devices: Sequence[str]) -> list[TableRow]:
    """All rows of a kind. Args: path: wheel, or folder; devices: names of the catalogue.

    Raises:
        ValueError: pyarrow is missing, or there is nothing to read; one line.
    """
    try:
        from pyarrow.parquet import read_table
    except ImportError:
        raise ValueError(NO_PYARROW) from None
    rows = []
    try:
        for file in _files(path, f"{FILES[kind]}.parquet"):
            table = read_table(file)
            # Some tables do not name their GPU; to make rows of those that nobody asked for takes long.
            named = "device" in table.column_names
            device = device_of_product(str(table["device"][0])) if named else None
            if device and device in devices:
                rows += [row_of(entry, kind, device) for entry in table.to_pylist()]
    except (BadZipFile, KeyError, OSError) as error:
        raise ValueError(f"{str(path)!r}: cannot be read as tables of aiconfigurator-core ({error})") from None
    if not rows:
        raise ValueError(f"{str(path)!r}: holds no rows of {kind} for {', '.join(devices)}")
    return rows


def _files(path: Path, name: str) -> Iterator[BytesIO]:
    if path.is_dir():
        for file in sorted(path.rglob(name)):
            yield BytesIO(file.read_bytes())
        return
    with ZipFile(path) as wheel:
        for member in sorted(wheel.namelist()):
            if member.endswith(f"/{name}"):
                yield BytesIO(wheel.read(member))


def row_of(entry: dict[str, Any], kind: Kind, device: str) -> TableRow:
    """A row as a table has it. Args: entry: by its columns; device: name in the catalogue."""
    sizes = {name: int(entry.get(column) or 0) for name, column in SIZES[kind].items()}
    source, framework = entry["kernel_source"], entry["framework"].lower()
    if kind == "gemm":
        dtype = entry["gemm_dtype"]
    elif kind == "collective":
        # The version is NCCL's, whoever called it.
        source, framework, dtype = entry["op_name"], "nccl", entry["nccl_dtype"]
    else:
        sizes["length"] += int(entry["step"])
        dtype = entry["attn_dtype"] if (cache := entry["kv_cache_dtype"]) == entry["attn_dtype"] else f"cache-{cache}"
    return TableRow(
        device=device,
        kind=kind,
        source=source,
        framework=f"{framework} {entry['version']}",
        dtype=dtype,
        sizes=sizes,
        time_s=1e-3 * entry["latency"],
    )


def sampled(
    rows: Sequence[TableRow], number: int, seed: int, *, part: str = "all", only: Sequence[str] = ()
) -> list[TableRow]:
    """As many rows, drawn for each device by itself.

    Args:
        number: 0: every one; part: of the data, or `all`; only: patterns of framework, version, kernel and type.
    """
    rows = [
        row
        for row in rows
        if part in ("all", row.part)
        and (not only or any(fnmatchcase(f"{row.framework} {row.source} {row.dtype}", pattern) for pattern in only))
    ]
    chosen = []
    for device in dict.fromkeys(row.device for row in rows):
        of_device = [row for row in rows if row.device == device]
        chosen += Random(seed).sample(of_device, number) if 0 < number < len(of_device) else of_device
    return chosen
