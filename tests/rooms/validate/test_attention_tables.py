"""Public measured tables of attention beside predictions, and the rules by which paged attention is priced."""

import lzma
from collections.abc import Mapping
from csv import DictReader
from dataclasses import replace
from pathlib import Path
from statistics import mean
from types import MappingProxyType

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.operations.cost_model import KernelCostModel
from tilesight.simulator.operations.families.attention.paged import FA2, FA3, TRTLLM, Library, Paged, grid_of
from tilesight.simulator.operations.price import price
from tilesight.simulator.operations.priced import KernelEstimate
from tilesight.validate.tables.calls import ATTENTION_CALLS, attention_call
from tilesight.validate.tables.predicting import predict_row
from tilesight.validate.tables.rows import ATTENTION, Kind, TableRow, row_of

RECORDED = Path(__file__).parents[2] / "recorded" / "public-attention.csv.xz"
GPUS = ("a100-sxm-80gb", "l40s", "rtx-pro-6000", "h100-sxm", "h200", "b200", "b300")
LIMITS = {"b300": 0.16}
"""Largest mean error of a GPU's rows; 0.12 where nothing is said. Nothing was fitted on a B300."""
LLAMA = {"batch": 8, "heads": 32, "length": 4096, "key_heads": 8, "head_dim": 128, "window": 0}


def row(kind: Kind, us: float = 100.0, **said: str | int) -> TableRow:
    """A row of an A100 by FlashAttention-2, heads as an 8B Llama's unless it is said otherwise."""
    texts = {"device": "a100-sxm-80gb", "framework": "vllm 0.14.0", "source": "vllm_flash_attn", "dtype": "bfloat16"}
    texts |= {name: str(value) for name, value in said.items() if name in texts}
    sizes = {name: int(said.get(name, size)) for name, size in LLAMA.items()}
    return TableRow(kind=kind, sizes=sizes, time_s=1e-6 * us, **texts)


def recorded(device: str, kind: Kind) -> list[TableRow]:
    """Rows of a GPU on which nothing was fitted."""
    with lzma.open(RECORDED, "rt", encoding="utf-8") as file:
        entries = list(DictReader(file.read().splitlines()[1:]))
    names = ("device", "framework", "source", *ATTENTION)
    return [
        row(kind, float(entry["us"]), **{name: entry[name] for name in names})
        for entry in entries
        if (entry["device"], entry["kind"]) == (device, kind)
    ]


def kernels_of(asked: TableRow, **arguments: int) -> list[KernelEstimate]:
    """Kernels of its attention, without the write before it. Args: arguments: that replace the operation's."""
    _, operation = attention_call(asked)
    said: Mapping[str, object] = MappingProxyType(dict(operation.arguments) | arguments)
    return price(replace(operation, arguments=said), KernelCostModel(load_device(asked.device)))


def attention_s(asked: TableRow) -> float:
    """What its attention alone takes [s]."""
    return next(kernel.time_s for kernel in kernels_of(asked) if "_paged" in kernel.name)


def splits_of(library: Library, asked: Paged, sms: int) -> int:
    """Pieces into which a library cuts keys."""
    return library.splits(asked, grid_of(asked, library.tile(asked)), sms)


def paged(**said: int) -> Paged:
    """One query of each of some sequences, heads as an 8B Llama's."""
    sizes = {"batch": 1, "heads": 32, "key_heads": 8, "queries": 1, "keys": 4096, "head_dim": 128, "window": 0} | said
    return Paged(causal=True, **sizes)


@pytest.mark.parametrize("name", GPUS)
@pytest.mark.parametrize("kind", ["prefill", "decode"])
def test_attention_takes_as_long_as_public_tables_say(name: str, kind: Kind) -> None:
    """No constant was fitted on these rows; a roofline is far off, as most are short."""
    rows = recorded(name, kind)
    assert len(rows) == 24
    assert {made.part for made in rows} == {"check"}
    made = [predict_row(asked, load_device(name)) for asked in rows]
    assert not any(asked.reason or asked.impossible for asked in made)
    error = mean(abs(asked.pair.relative_error) for asked in made)
    assert error < LIMITS.get(name, 0.12)
    assert mean(abs(asked.roofline_s / asked.row.time_s - 1) for asked in made) > 4 * error


def test_a_token_is_decoded_behind_its_step() -> None:
    """A row of decoding has as many keys as its step, and its own; the part follows from the length, not the dims."""
    entry = {"framework": "VLLM", "version": "0.24.0", "kernel_source": "vllm_flash_attn_fa3", "latency": 0.01}
    entry |= {"batch_size": 2, "num_heads": 8, "isl": 1, "step": 1023, "num_key_value_heads": 1, "head_dim": 128}
    made = row_of(entry | {"attn_dtype": "bfloat16", "kv_cache_dtype": "fp8", "window_size": None}, "decode", "h200")
    assert (made.sizes["length"], made.sizes["window"], made.dtype) == (1024, 0, "cache-fp8")
    assert made.part == "check"
    refused = predict_row(made, load_device("h200"))
    assert refused.reason == "vllm_flash_attn_fa3 of cache-fp8 has no price"


def test_rows_faster_than_the_peaks_are_left_out() -> None:
    """An A100 needs 3.5 ms for prompts of 8 x 4,096; of keys that L2 holds HBM sends none."""
    device = load_device("a100-sxm-80gb")
    assert [predict_row(row("prefill", us), device).impossible for us in (2e3, 7e3)] == [True, False]
    small = predict_row(row("decode", 10.0, batch=1), device)
    assert small.least_s < 0.1 * small.roofline_s
    assert predict_row(row("decode", 10.0, batch=64), device).impossible


def test_a_window_bounds_what_a_query_reads() -> None:
    """Behind 128 keys a prompt of 4,096 takes a small part of the time; on a B200 one query as long as of 128 keys."""
    whole, narrow = (attention_s(row("prefill", window=window)) for window in (0, 128))
    assert narrow < 0.2 * whole
    b200 = {"device": "b200", "source": "vllm_flashinfer_trtllmdecode"}
    behind, short = (attention_s(row("decode", **said, **b200)) for said in ({"window": 128}, {"length": 128}))
    assert behind < 1.2 * short


def test_keys_are_split_where_tiles_are_few() -> None:
    """By FlashAttention-2 only where heads share keys, by 3 at most into 32 pieces; never in prompts of many tiles."""
    assert splits_of(FA2, paged(), 108) > 4
    assert splits_of(FA2, paged(heads=8), 108) == 1
    assert splits_of(FA2, paged(window=128), 108) == 1
    assert splits_of(FA3, paged(heads=1, key_heads=1, keys=131072), 132) == 32
    assert splits_of(FA3, paged(batch=64), 132) == 1
    assert splits_of(TRTLLM, paged(), 148) == 18
    assert splits_of(TRTLLM, paged(queries=4096), 148) == 1


def test_blocks_of_a_causal_prompt_are_those_it_sees() -> None:
    """Tiles of 64 queries over 256 keys in blocks of 128 see 1, 1, 2 and 2 of them."""
    grid = grid_of(paged(queries=256, keys=256, heads=1, key_heads=1), FA2.tile(paged(queries=256, keys=256)))
    assert (grid.tiles, grid.blocks, grid.longest, grid.even) == (4, 6, 2, False)


def test_heads_of_one_query_are_laid_out_as_rows() -> None:
    """By FlashAttention-2: two copies around attention where several sequences' heads share keys."""
    names = [kernel.name for kernel in kernels_of(row("decode", batch=64))]
    assert len(names) == 3
    assert names[0] == names[2] != "flash_attention_2_paged" == names[1]
    assert [kernel.name for kernel in kernels_of(row("decode", batch=256, key_heads=32))] == ["flash_attention_2_paged"]


def test_the_answer_says_what_it_was_read_off() -> None:
    """The table and its GPU; on a B300 that it is the B200's."""
    assert "fitted on public tables: aiconfigurator-core 0.12.0" in kernels_of(row("decode", batch=64))[1].note
    asked = row("decode", device="b300", source="vllm_flashinfer_trtllmdecode")
    assert "B200" in kernels_of(asked)[0].note


@pytest.mark.parametrize(
    ("said", "arguments", "reason"),
    [
        ({"device": "h100-sxm"}, {}, "by flash_attention_2 on compute capability 9.0"),
        ({"device": "b200", "source": "vllm_flash_attn_fa3"}, {}, "by flash_attention_3 on compute capability 10.0"),
        ({"head_dim": 512}, {}, "by flash_attention_2 of heads of 512, which has none above 256"),
        ({}, {"max_seqlen_k": 0}, "of sequences whose longest is not said"),
    ],
)
def test_what_was_not_fitted_is_refused(said: dict[str, str], arguments: dict[str, int], reason: str) -> None:
    """By its library and GPU, or what is missing."""
    (kernel,) = kernels_of(row("decode", **said), **arguments)
    assert reason in kernel.reason


def test_keys_without_pages_and_of_another_type_are_refused() -> None:
    """They have kernels of their own."""
    gpu = KernelCostModel(load_device("h100-sxm"))
    _, operation = attention_call(row("decode", device="h100-sxm", source="vllm_flash_attn_fa3"))
    query, keys, values, table = operation.inputs
    fp8 = tuple(replace(pool, dtype="float8_e4m3fn") for pool in (keys, values))
    for inputs, reason in (
        ((query, keys, values), "of keys that do not lie in pages"),
        ((query, *fp8, table), "of bfloat16 over pages of float8_e4m3fn"),
    ):
        (kernel,) = price(replace(operation, inputs=inputs), gpu)
        assert reason in kernel.reason


def test_flashinfer_says_lengths_in_words_of_its_own() -> None:
    """Keys and values in one tensor of pages, by heads; the same time as of two tensors."""
    gpu = KernelCostModel(load_device("b200"))
    _, operation = attention_call(row("decode", device="b200", source="vllm_flashinfer_trtllmdecode"))
    query, keys, values, table = operation.inputs
    whole = 2 * keys.storage_bytes
    pages, *page = keys.shape
    both = replace(keys, storage_bytes=whole, shape=(pages, 2, *page), strides=(2 * keys.strides[0], *keys.strides))
    said = MappingProxyType({"max_seq_len": 4096, "window_left": -1})
    times = [
        price(replace(operation, inputs=inputs, arguments=said), gpu)[0].time_s
        for inputs in ((query, keys, values, table), (query, both, table))
    ]
    assert times[0] == pytest.approx(times[1], rel=0.01)


def test_every_source_names_an_operation_with_a_price() -> None:
    """Of each kernel source some GPU has times."""
    for source, name in ATTENTION_CALLS.items():
        device = {"_vllm_fa2_C": "l40s", "_vllm_fa3_C": "h200"}.get(name.partition("::")[0], "b200")
        kinds: tuple[Kind, ...] = ("prefill",) if "prefill" in source else ("decode",)
        for kind in kinds:
            assert not predict_row(row(kind, device=device, source=source), load_device(device)).reason


def test_a_write_to_pages_costs_its_threads() -> None:
    """Four heads of 128 fill a CTA's 512 threads: eight take no more of them, one a quarter."""
    times = []
    for heads in (1, 4, 8):
        (kernel,) = price(
            attention_call(row("prefill", key_heads=heads))[0], KernelCostModel(load_device("a100-sxm-80gb"))
        )
        times.append(kernel.time_s)
    assert times[1] > 3 * times[0]
    assert times[2] < 1.5 * times[1]
