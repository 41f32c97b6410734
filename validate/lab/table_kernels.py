"""Triton kernels of vLLM and SGLang by machine code, beside public measured tables: no number was fitted on these rows.

    python table_kernels.py predict WHEEL SOURCES OUT.ndjson --device l40s,b200 --part test --sample 10 --seed 1
    python table_kernels.py score OUT.ndjson ...

WHEEL is `aiconfigurator-core` 0.12.0; SOURCES a folder with `vllm-0.24.0/vllm`, `sglang-0.5.10/sglang` and
`sglang-0.5.14/sglang` of their wheels, unpacked. Rows are timed in replayed CUDA graphs of ten calls on the same
tensors (the collector's `benchmark_with_power`), those of SGLang and of attention of one call, of experts of five: so
L2 is warm, and the time `graph`.
"""

import argparse
import glob
import importlib.util
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from io import BytesIO
from pathlib import Path
from random import Random
from statistics import mean, median
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
import triton
import triton.language as tl
from table_experts import ASKED, LEFT_OUT, NAMES, ROUNDS, SIZES, experts, made
from tilesight.simulator.device.device import load_device

import tilesight

Row = dict[str, Any]
PARTS = ("test", "fit", "fit", "check", "check")
"""By the sum of a problem's first three sizes, modulo 5."""
FOLDERS = {
    "a100-sxm-80gb": "a100_sxm",
    "h100-sxm": "h100_sxm",
    "h200": "h200_sxm",
    "b200": "b200_sxm",
    "l40s": "l40s",
    "rtx-pro-6000": "rtx_pro_6000_server",
}
REAL = {
    "vllm.model_executor.layers.mamba.ops.causal_conv1d",
    "vllm.model_executor.layers.fla.ops.fused_recurrent",
    "vllm.model_executor.layers.fla.ops.op",
    "vllm.v1.attention.ops.triton_unified_attention",
    "vllm.v1.attention.ops.triton_attention_helpers",
    "vllm.v1.attention.ops.triton_reshape_and_cache_flash",
    "sglang.srt.layers.attention.fla.fused_recurrent",
    "sglang.srt.layers.attention.fla.op",
}
"""Modules that are loaded; all others of these packages are stand-ins."""
FP8 = torch.float8_e4m3fn
PAGE, SEGMENTS = 64, 16
"""Tokens of a page in the collector; segments of vLLM's split attention."""


class StandIns(MetaPathFinder, Loader):
    """Finds modules of `REAL` in unpacked wheels, and makes up the rest of their packages."""

    def __init__(self, sources: Path) -> None:
        self._roots = {"vllm": sources / "vllm-0.24.0", "sglang": sources / "sglang-0.5.10"}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """As of `MetaPathFinder`."""
        root = self._roots.get(name.split(".")[0])
        if root is None:
            return None
        if name in REAL:
            return importlib.util.spec_from_file_location(name, root / f"{name.replace('.', '/')}.py")
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """As of `Loader`."""
        made = MagicMock(name=spec.name, __path__=[], __spec__=spec, __file__=spec.name)
        made.__name__ = spec.name
        made.tl, made.triton, made.NULL_BLOCK_ID, made.PAD_SLOT_ID = tl, triton, 0, -1
        made.FP8_DTYPE, made.get_fp8_min_max, made.VLLM_BATCH_INVARIANT = FP8, lambda: (-448.0, 448.0), False
        made.is_quantized_kv_cache, made.input_guard = lambda dtype: dtype.startswith("fp8"), lambda function: function
        made.current_platform.fp8_dtype = lambda: FP8
        made.is_cuda, made.is_hip, made.get_device_name = lambda: True, lambda: False, lambda: ASKED["name"]
        made.get_global_server_args = lambda: SimpleNamespace(enable_deterministic_inference=False)
        made.current_platform.is_rocm = made.current_platform.is_xpu = lambda: False
        made.current_platform.is_device_capability_family = lambda family: False
        return made

    def exec_module(self, module: ModuleType) -> None:
        """As of `Loader`."""


def channels(row: Row) -> int:
    """Of the convolution: queries, keys and values of all heads."""
    return int(2 * row["num_k_heads"] * row["head_k_dim"] + row["num_v_heads"] * row["head_v_dim"])


def conv_update(row: Row) -> None:
    """A token of each sequence through vLLM's causal convolution."""
    module = importlib.import_module("vllm.model_executor.layers.mamba.ops.causal_conv1d")
    batch, dim, width = row["batch_size"], channels(row), row["d_conv"]
    state = made(batch + 1, width - 1, dim).transpose(-1, -2)
    slots = torch.arange(1, batch + 1, dtype=torch.int32)
    module.causal_conv1d_update(
        made(batch, dim), state, made(dim, width), None, activation="silu", conv_state_indices=slots, validate_data=True
    )


def conv_prompt(row: Row) -> None:
    """Prompts through the same."""
    module = importlib.import_module("vllm.model_executor.layers.mamba.ops.causal_conv1d")
    batch, length, dim, width = row["batch_size"], row["seq_len"], channels(row), row["d_conv"]
    chunks = -(-length // 8)
    of_chunk = torch.arange(batch, dtype=torch.int32).repeat_interleave(chunks)
    offsets = torch.arange(chunks, dtype=torch.int32).repeat(batch)
    counted = {"tot": chunks * batch, "mlist": of_chunk, "mlist_len": len(of_chunk), "offsetlist": offsets}
    pointers = {"batch_ptr": of_chunk, "token_chunk_offset_ptr": offsets}
    metadata = SimpleNamespace(nums_dict={8: counted | pointers}, cu_seqlen=batch * length, **pointers)
    module.causal_conv1d_fn(
        made(batch * length, dim).transpose(0, 1),
        made(dim, width),
        None,
        made(batch + 1, width - 1, dim).transpose(-1, -2),
        torch.arange(0, batch * length + 1, length, dtype=torch.int32),
        cache_indices=torch.arange(1, batch + 1, dtype=torch.int32),
        has_initial_state=torch.zeros(batch, dtype=torch.bool),
        activation="silu",
        metadata=metadata,
    )


def delta_rule(row: Row) -> None:
    """A token of each sequence through vLLM's gated delta rule."""
    module = importlib.import_module("vllm.model_executor.layers.fla.ops.fused_recurrent")
    batch, heads, dim = row["batch_size"], row["num_v_heads"], row["head_v_dim"]
    module.fused_recurrent_gated_delta_rule_packed_decode(
        mixed_qkv=made(batch, channels(row)),
        a=made(batch, heads),
        b=made(batch, heads),
        A_log=made(heads, dtype=torch.float32),
        dt_bias=made(heads),
        scale=row["head_k_dim"] ** -0.5,
        initial_state=made(batch + 1, heads, dim, row["head_k_dim"], dtype=torch.float32),
        out=made(batch, 1, heads, dim),
        ssm_state_indices=torch.arange(1, batch + 1, dtype=torch.int32),
        use_qk_l2norm_in_kernel=True,
    )


def delta_rule_sglang(row: Row) -> None:
    """The same through SGLang's."""
    module = importlib.import_module("sglang.srt.layers.attention.fla.fused_recurrent")
    batch, heads, dim, keys = (row[name] for name in ("batch_size", "num_v_heads", "head_v_dim", "num_k_heads"))
    query, key = (made(batch, 1, keys, row["head_k_dim"]) for _ in "qk")
    value, gate, beta = made(batch, 1, heads, dim), made(batch, 1, heads), made(batch, 1, heads)
    state = made(batch, heads, dim, row["head_k_dim"])
    module.fused_recurrent_gated_delta_rule_fwd(query, key, value, gate, beta, row["head_k_dim"] ** -0.5, state, True)


def attention(row: Row) -> None:
    """A token of each sequence, keys and values in fp8: the write to pages, and vLLM's Triton attention."""
    write = importlib.import_module("vllm.v1.attention.ops.triton_reshape_and_cache_flash")
    module = importlib.import_module("vllm.v1.attention.ops.triton_unified_attention")
    batch, heads, keys, dim, window = (
        row[name] for name in ("batch_size", "num_heads", "num_key_value_heads", "head_dim", "window_size")
    )
    length = row["step"] + 1
    pages = -(-length // PAGE)
    cache = made(max(8192, 1 + batch * pages), 2, PAGE, keys, dim, dtype=FP8)
    places = torch.randperm(batch * pages, generator=torch.Generator().manual_seed(42)) + 1
    table = places.to(torch.int32).view(batch, pages)
    slots = table[:, (length - 1) // PAGE].long() * PAGE + (length - 1) % PAGE
    scale = torch.ones(1)
    key_cache, value_cache = cache.unbind(1)
    new = made(batch, keys, dim), made(batch, keys, dim)
    write.triton_reshape_and_cache_flash(*new, key_cache, value_cache, slots, "fp8", scale, scale)
    graphs = [size for size in (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)) if size <= min(2 * batch, 512)]
    split = min(graphs, key=lambda size: abs(size - 128 // keys))
    padded = 1 << (dim - 1).bit_length()
    module.unified_attention(
        q=made(batch, heads, dim, dtype=FP8), k=key_cache, v=value_cache, out=made(batch, heads, dim),
        cu_seqlens_q=torch.arange(batch + 1, dtype=torch.int32), max_seqlen_q=1,
        seqused_k=torch.full((batch,), length, dtype=torch.int32), max_seqlen_k=length,
        softmax_scale=dim**-0.5, causal=True, window_size=(window - 1, 0) if window else (-1, -1), block_table=table,
        softcap=0, q_descale=scale, k_descale=scale.expand(batch, keys), v_descale=scale.expand(batch, keys),
        seq_threshold_3D=split, num_par_softmax_segments=SEGMENTS,
        softmax_segm_output=made(split, heads, SEGMENTS, padded, dtype=torch.float32),
        softmax_segm_max=made(split, heads, SEGMENTS, dtype=torch.float32),
        softmax_segm_expsum=made(split, heads, SEGMENTS, dtype=torch.float32),
        kv_quant_mode=1,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Family:
    """Rows of a kernel: its table, its name there, columns of its sizes, what runs it, which rows are left out.

    Args:
        calls: that `call` makes; the last one's time counts, with what those before left in L2. One: L2 is warm.
        left_out: kernels that are not predicted: each takes at least the gap of a launch without work.
    """

    table: str
    source: str
    sizes: tuple[str, ...]
    call: Callable[[Row], None]
    keeps: Callable[[Row], bool] = lambda row: True
    calls: int = 1
    left_out: int = 0


GDN = "linear_attention/vllm/0.24.0/gdn_perf"
HEADS = ("batch_size", "num_v_heads", "num_k_heads")
FAMILIES = {
    "conv_update": Family(GDN, "causal_conv1d_update", HEADS, conv_update),
    "conv_prompt": Family(
        GDN, "causal_conv1d_fn", ("batch_size", "seq_len", "num_v_heads"), conv_prompt,
        lambda row: row["num_tokens"] * channels(row) < 120_000_000,
    ),
    "delta_rule": Family(GDN, "fused_recurrent_gated_delta_rule_packed_decode", HEADS, delta_rule),
    "delta_rule_sglang": Family(
        "linear_attention/sglang/0.5.10/gdn_perf", "fused_recurrent_gated_delta_rule", HEADS, delta_rule_sglang
    ),
    "attention": Family(
        "attention/vllm/0.24.0/generation_attention_perf", "vllm_triton_attn",
        ("batch_size", "num_heads", "step", "num_key_value_heads", "window_size"), attention,
        lambda row: row["batch_size"] * row["step"] <= 1 << 19,
    ),
    **{
        f"experts_{version}": Family(
            f"moe/sglang/{version}/moe_perf", "sglang_fused_moe_triton", SIZES, experts,
            lambda row: (
                (row["moe_dtype"], row["distribution"], row["moe_ep_size"]) == ("bfloat16", "balanced", 1)
                and 0.2 <= row["latency"] <= 20
                and not (row["version"] == "0.5.14" and (row["topk"] == 22 or row["hidden_size"] == 2688))
            ),
            calls=ROUNDS, left_out=LEFT_OUT,
        )
        for version in ("0.5.10", "0.5.14")
    },
}  # fmt: skip


def rows_of(wheel: str, name: str, device: str, part: str, number: int, seed: int) -> list[Row]:
    """Rows that are drawn, each problem once; none where the table has none."""
    from pyarrow.parquet import read_table

    family = FAMILIES[name]
    member = f"aiconfigurator_core/systems/data/{FOLDERS[device]}/{family.table}.parquet"
    with zipfile.ZipFile(wheel) as opened:
        if member not in opened.namelist():
            return []
        rows = read_table(BytesIO(opened.read(member))).to_pylist()
    problems: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        of = PARTS[sum(row[size] for size in family.sizes[:3]) % len(PARTS)]
        if row["kernel_source"] == family.source and family.keeps(row) and part in (of, "all"):
            problems.setdefault(tuple(row[size] for size in family.sizes), row)
    ordered = [problems[key] for key in sorted(problems)]
    return Random(seed).sample(ordered, min(number, len(ordered)))


def predicted(name: str, device: str, row: Row) -> dict[str, Any]:
    """A row beside its prediction; `refused` says why there is none."""
    measured = {"family": name, "device": device, "sizes": {size: row[size] for size in FAMILIES[name].sizes}}
    measured["us"] = 1e3 * row["latency"]
    ASKED["name"] = NAMES[device]
    calls, gap_s = FAMILIES[name].calls, load_device(device).graph_gap_s
    with tilesight.capture(device) as launches:
        FAMILIES[name].call(row)
    l2 = "warm" if calls == 1 else "pipeline"
    seen = tilesight.predict(launches, device=device, l2=l2, timing="graph", workers=1, time_limit_s=90)
    last = seen.rows[-(len(seen.rows) // calls) :]
    refused = [launch.refused for launch in last if launch.refused]
    bound_us = 1e6 * sum(launch.ceiling.bound_s for launch in last if launch.ceiling)
    time_s = sum(launch.traffic.time_s for launch in last) + FAMILIES[name].left_out * gap_s
    return measured | {"predicted_us": 1e6 * time_s, "roofline_us": bound_us, "refused": refused}


def cells(lines: list[dict[str, Any]]) -> Iterator[str]:
    """A row of a table for each kernel and GPU: below 5 us, and longer."""
    yield "| GPU | kernel | length | rows | refused | mean error (median) | bias | roofline |"
    yield "|---|---|---|---|---|---|---|---|"
    for device, name in dict.fromkeys((line["device"], line["family"]) for line in lines):
        of = [line for line in lines if (line["device"], line["family"]) == (device, name)]
        for words, long in (("below 5 us", False), ("5 us and more", True)):
            all_lines = [line for line in of if (line["us"] >= 5) == long]
            answered = [line for line in all_lines if not line["refused"]]
            if not all_lines:
                continue
            errors = [line["predicted_us"] / line["us"] - 1 for line in answered] or [float("nan")]
            bare = [abs(line["roofline_us"] / line["us"] - 1) for line in answered] or [float("nan")]
            sizes = [abs(error) for error in errors]
            yield (
                f"| `{device}` | `{name}` | {words} | {len(all_lines)} | {len(all_lines) - len(answered)} "
                f"| {mean(sizes):.1%} ({median(sizes):.1%}) | {mean(errors):+.1%} | {mean(bare):.0%} |"
            )


def main() -> None:
    """Predict rows, or print errors of rows that were predicted."""
    asked = argparse.ArgumentParser()
    commands = asked.add_subparsers(dest="command", required=True)
    predict, score = commands.add_parser("predict"), commands.add_parser("score")
    for name in ("wheel", "sources", "out"):
        predict.add_argument(name)
    predict.add_argument("--device", required=True)
    predict.add_argument("--family", default=",".join(FAMILIES))
    predict.add_argument("--part", default="test", choices=("test", "fit", "check", "all"))
    predict.add_argument("--sample", type=int, default=10)
    predict.add_argument("--seed", type=int, default=1)
    score.add_argument("files", nargs="+")
    given = asked.parse_args()
    if given.command == "score":
        texts = [Path(file).read_text() for pattern in given.files for file in glob.glob(pattern)]
        print("\n".join(cells([json.loads(line) for text in texts for line in text.splitlines()])))
        return
    ASKED["sources"] = Path(given.sources)
    sys.meta_path.insert(0, StandIns(Path(given.sources)))
    asked_for = [(name, device) for device in given.device.split(",") for name in given.family.split(",")]
    rows = {cell: rows_of(given.wheel, *cell, given.part, given.sample, given.seed) for cell in asked_for}
    with Path(given.out).open("a") as out:
        for number in range(given.sample):
            for (name, device), of_cell in rows.items():
                if number < len(of_cell):
                    line = predicted(name, device, of_cell[number])
                    print(json.dumps(line), file=out, flush=True)
                    print(f"{name} {device} {line['us']:.2f} us, predicted {line['predicted_us']:.2f}", flush=True)


if __name__ == "__main__":
    main()
