"""Tuning files of vLLM and SGLang: names, layout and what reads them; layers, routes and spaces behind them.

The engines' own readers are restated here from their sources, as the engines do not install without a GPU's packages.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tilesight.simulator.device.device import catalogue, load_device

from tilesight.tuning.engines.engine import BATCHES, ENGINES, FIELDS
from tilesight.tuning.engines.files import DEVICE_NAMES, engine_device, file_text, read_file
from tilesight.tuning.engines.layer import Layer, from_plain, layer_of, named_values, plain
from tilesight.tuning.engines.routing import Routing, aligned, row_tiles
from tilesight.tuning.engines.screen import PORTION, screened, tried

MIXTRAL = Layer(n=7168, k=4096, experts=8, topk=2)
DEEPSEEK = Layer(n=256, k=7168, experts=256, topk=8, dtype="fp8_w8a8", block=(128, 128))
LINEAR = Layer(n=1536, k=7168, dtype="fp8_w8a8", block=(128, 128))
ENTRY = dict(zip(FIELDS, (16, 64, 128, 1, 4, 3), strict=True))


def vllm_reads(folder: Path, experts: int, n: int, dtype: str | None, block: list[int] | None, batch: int) -> Any:
    """`get_moe_configs` and `try_get_optimal_moe_config` on an H100: the entry of the nearest batch size."""
    shape = f",block_shape={block}".replace(" ", "") if block and all(block) else ""
    name = f"E={experts},N={n},device_name=NVIDIA_H100_80GB_HBM3{f',dtype={dtype}' if dtype else ''}{shape}.json"
    content = json.loads((folder / name).read_text())
    content.pop("triton_version", None)
    configs = {int(key): value for key, value in content.items()}
    return configs[min(configs, key=lambda known: abs(known - batch))]


def sglang_reads(folder: Path, experts: int, n: int, dtype: str | None, block: list[int], batch: int) -> Any:
    """The same of SGLang under Triton 3.6.0: a folder of that version, a space within the shape, whole keys alone."""
    shape = f",block_shape={block}" if all(block) else ""
    name = f"E={experts},N={n},device_name=NVIDIA_H100_80GB_HBM3{f',dtype={dtype}' if dtype else ''}{shape}.json"
    configs = {
        int(key): value for key, value in json.loads((folder / "configs/triton_3_6_0" / name).read_text()).items()
    }
    return configs[min(configs, key=lambda known: abs(known - batch))]


def written(folder: Path, name: str, layer: Layer, batches: tuple[int, ...] = BATCHES) -> Path:
    """A file of an engine whose entries tell their batch sizes in GROUP_SIZE_M."""
    engine = ENGINES[name]
    path = folder / engine.file(layer, engine_device("h100-sxm"), "3.6.0")
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = {batch: {**ENTRY, "GROUP_SIZE_M": batch} for batch in reversed(batches)}
    path.write_text(file_text(engine, entries, "3.6.0"))
    return path


def test_vllm_reads_a_file_of_experts(tmp_path: Path) -> None:
    """By its name, at a batch size between two, with and without scales of blocks."""
    assert written(tmp_path, "vllm-moe", MIXTRAL).name == "E=8,N=7168,device_name=NVIDIA_H100_80GB_HBM3.json"
    assert vllm_reads(tmp_path, 8, 7168, None, None, 100)["GROUP_SIZE_M"] == 96
    written(tmp_path, "vllm-moe", DEEPSEEK)
    assert vllm_reads(tmp_path, 256, 256, "fp8_w8a8", [128, 128], 9000)["GROUP_SIZE_M"] == 4096


def test_sglang_reads_a_file_of_experts(tmp_path: Path) -> None:
    """In the folder of its Triton, where every key must be a number."""
    written(tmp_path, "sglang-moe", MIXTRAL)
    assert sglang_reads(tmp_path, 8, 7168, None, [0, 0], 1)["GROUP_SIZE_M"] == 1
    written(tmp_path, "sglang-moe", DEEPSEEK)
    assert sglang_reads(tmp_path, 256, 256, "fp8_w8a8", [128, 128], 40)["GROUP_SIZE_M"] == 32


def test_vllm_finds_a_file_of_a_linear_layer(tmp_path: Path) -> None:
    """`get_w8a8_block_fp8_configs`: no version, and the shape without a space."""
    path = written(tmp_path, "vllm-w8a8", LINEAR)
    assert path.name == "N=1536,K=7168,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8,block_shape=[128,128].json"
    assert all(key.isdecimal() for key in json.loads(path.read_text()))


def test_a_file_is_laid_out_as_the_engines_write_it(tmp_path: Path) -> None:
    """Four spaces, batch sizes in order, fields in order, a line's end."""
    text = written(tmp_path, "vllm-moe", MIXTRAL, (1, 2)).read_text()
    assert text == (
        '{\n    "triton_version": "3.6.0",\n    "1": {\n        "BLOCK_SIZE_M": 16,\n        "BLOCK_SIZE_N": 64,\n'
        '        "BLOCK_SIZE_K": 128,\n        "GROUP_SIZE_M": 1,\n        "num_warps": 4,\n        "num_stages": 3\n'
        '    },\n    "2": {\n        "BLOCK_SIZE_M": 16,\n        "BLOCK_SIZE_N": 64,\n        "BLOCK_SIZE_K": 128,\n'
        '        "GROUP_SIZE_M": 2,\n        "num_warps": 4,\n        "num_stages": 3\n    }\n}\n'
    )


def test_all_of_the_h200_family_share_a_file_of_vllm() -> None:
    """As its `get_config_file_name` has it; SGLang's keeps the name."""
    vllm, sglang = (ENGINES[name].file(MIXTRAL, "NVIDIA_H200_NVL", "3.6.0") for name in ("vllm-moe", "sglang-moe"))
    assert vllm == "E=8,N=7168,device_name=NVIDIA_H200.json"
    assert sglang.endswith("device_name=NVIDIA_H200_NVL.json")


def test_every_device_of_the_catalogue_has_an_engines_name() -> None:
    """Another one is given with the layer, in the driver's words."""
    assert set(DEVICE_NAMES) == set(catalogue())
    assert engine_device("mine.toml", "NVIDIA RTX A6000") == "NVIDIA_RTX_A6000"
    with pytest.raises(ValueError, match=r"^device_name: no engine's name of 'mine\.toml' is known: give it"):
        engine_device("mine.toml")


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    """Layer by the name, entries by the batch size; fields that are not ours are left out."""
    path = written(tmp_path, "vllm-moe", DEEPSEEK, (1, 64))
    content = json.loads(path.read_text())
    content["64"]["waves_per_eu"] = 2
    path.write_text(json.dumps(content))
    given, entries = read_file(path)
    assert given == {
        "E": "256",
        "N": "256",
        "device_name": "NVIDIA_H100_80GB_HBM3",
        "dtype": "fp8_w8a8",
        "block_shape": "[128,128]",
    }
    assert entries == {batch: {**ENTRY, "GROUP_SIZE_M": batch} for batch in (1, 64)}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("tuned.json", "{}", "its name tells no layer"),
        ("E=8,N=64.json", "{", "is no JSON"),
        ("E=8,N=64.json", "[]", "is no tuning file: it must hold an object"),
        ("E=8,N=64.json", '{"triton_version": "3.6.0"}', "has no entry"),
        ("E=8,N=64.json", '{"few": {}}', "'few': must be a batch size, with a configuration"),
        ("E=8,N=64.json", '{"1": {"BLOCK_SIZE_M": true}}', "batch size 1: BLOCK_SIZE_M is True: must be a whole"),
    ],
)
def test_what_is_no_tuning_file_is_said_in_a_line(tmp_path: Path, name: str, content: str, said: str) -> None:
    """With what is wrong."""
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError) as raised:
        read_file(tmp_path / name)
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_a_layer_is_told_as_files_are_named() -> None:
    """Names and values, a shape in brackets; and it survives JSON."""
    given = named_values("E=256, N=256,hidden=7168, topk=8, dtype=fp8_w8a8, block_shape=[128, 128]")
    assert layer_of(given, ENGINES["vllm-moe"].needs, True) == DEEPSEEK
    assert from_plain(json.loads(json.dumps(plain(DEEPSEEK)))) == DEEPSEEK
    assert layer_of({"N": "1536", "K": "7168"}, ENGINES["vllm-w8a8"].needs, False) == LINEAR


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("E=8", "N is missing: it needs E, N, hidden, topk"),
        ("E=8, N=0, hidden=64, topk=2", "N=0: must be a whole number of 1"),
        ("E=2, N=64, hidden=64, topk=4", "topk=4: must be at most E=2"),
        ("E=8, N=64, hidden=64, topk=2, dtype=int4", "dtype=int4: must be fp8_w8a8, or be left out"),
        ("E=8, N=64, hidden=64, topk=2, block_shape=[128,128]", "is of dtype=fp8_w8a8 alone"),
        ("E=8, N=64, hidden=64, topk=2, dtype=fp8_w8a8, block_shape=[128]", "must be two whole numbers"),
        ("E=8, N=64, hiden=64, topk=2", "'hiden' is unknown: did you mean hidden?"),
        ("E=8, E=8", "E is given twice"),
        ("E 8", "must be NAME=VALUE"),
        ("E=", "must be NAME=VALUE"),
    ],
)
def test_a_strange_layer_is_refused_in_a_line(text: str, said: str) -> None:
    """With what is allowed."""
    with pytest.raises(ValueError) as raised:
        layer_of(named_values(text), ENGINES["vllm-moe"].needs, True)
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_a_layer_of_experts_launches_up_and_down() -> None:
    """Up and gate together read each token's row topk times; down reads rows of its own."""
    up, down = MIXTRAL.products(64)
    assert (up.rows, up.n, up.k, up.top) == (128, 14336, 4096, 2)
    assert (down.rows, down.n, down.k, down.top) == (128, 4096, 7168, 1)


@pytest.mark.parametrize("routing", [Routing(), Routing(skew=1.2, seed=3)])
def test_a_token_goes_to_experts_that_differ(routing: Routing) -> None:
    """Whether they are balanced or not."""
    chosen = routing.experts(DEEPSEEK, 50)
    assert chosen.shape == (50, 8)
    assert all(len(set(row)) == 8 and min(row) >= 0 and max(row) < 256 for row in chosen.tolist())


def test_balanced_experts_get_as_many_tokens() -> None:
    """As far as they can be shared out."""
    counts = Counter(Routing().experts(MIXTRAL, 63).ravel().tolist())
    assert set(counts.values()) == {15, 16}


def test_skewed_experts_follow_a_power_law_by_a_seed() -> None:
    """The same for a seed, others for another; steeper, the first of them gets more."""
    layer = Layer(n=64, k=64, experts=64, topk=1)
    shares = []
    for skew in (0.5, 1.0, 2.0):
        counts = np.sort(np.bincount(Routing(skew=skew, seed=1).experts(layer, 20000).ravel(), minlength=64))[::-1]
        ranks = np.arange(1, 65)
        expected = ranks**-skew / np.sum(ranks**-skew)
        assert counts[0] / 20000 == pytest.approx(expected[0], rel=0.1)
        shares.append(counts[0])
    assert shares == sorted(shares)
    again, other = (Routing(skew=1.0, seed=seed).experts(layer, 100) for seed in (1, 2))
    assert np.array_equal(again, Routing(skew=1.0, seed=1).experts(layer, 100))
    assert not np.array_equal(again, other)


def test_rows_of_an_expert_lie_in_whole_tiles() -> None:
    """The example of `moe_align_block_size` in vLLM; places beyond the padded ones are no rows."""
    chosen = np.array([[2, 3, 4], [1, 2, 4], [1, 3, 4], [1, 2, 3]], np.int32) - 1
    order = aligned(chosen, 4, 4)
    assert order.padded == 16
    assert order.rows[:16].tolist() == [3, 6, 9, 12, 0, 4, 10, 12, 1, 7, 11, 12, 2, 5, 8, 12]
    assert set(order.rows[16:].tolist()) <= {12}
    assert order.experts[:4].tolist() == [0, 1, 2, 3]


def test_rows_of_tiles_are_those_of_the_longest_launch() -> None:
    """16 tokens to 2 of 8 experts: 32 rows and 15 more an expert, as vLLM pads; of one token a tile for each expert."""
    assert [row_tiles(MIXTRAL, batch, 16, Routing()) for batch in (1, 16)] == [2, -(-(32 + 8 * 15) // 16)]
    assert row_tiles(LINEAR, 100, 64, Routing()) == 2


def test_an_expert_without_rows_has_no_tile() -> None:
    """And few rows take few places."""
    order = aligned(np.array([[5, 1]], np.int32), 8, 16)
    assert (order.padded, order.rows.size) == (32, 32)
    assert order.experts[:2].tolist() == [1, 5]
    assert (order.rows[0], order.rows[16]) == (1, 0)


def test_spaces_are_those_of_the_engines_tuners() -> None:
    """1,920 and 1,280 configurations, less what does not fit: each tile is whole blocks of scales, or parts of one."""
    device = load_device("h100")
    for name, layer, count, fit in (
        ("vllm-moe", MIXTRAL, 1920, 1232),
        ("vllm-moe", DEEPSEEK, 1920, None),
        ("sglang-moe", DEEPSEEK, 1920, None),
        ("vllm-w8a8", LINEAR, 1280, None),
    ):
        fitting, lost = tried(ENGINES[name], layer, device)
        assert len(fitting) + lost == count
        assert fit in (None, len(fitting))


def test_screening_prefers_tiles_that_waste_little() -> None:
    """Of a batch of one token all rows but a few are padding: the lowest tiles come first. At 4096 the largest do."""
    device, engine = load_device("h100"), ENGINES["vllm-moe"]
    items = [item for item in tried(engine, MIXTRAL, device)[0] if item["GROUP_SIZE_M"] == 16]
    single, many = ([item for item, _ in screened(items, MIXTRAL, batch, Routing(), device)] for batch in (1, 4096))
    assert len(single) == len(many) == max(PORTION.least, -(-15 * len(items) // 100))
    assert {item["BLOCK_SIZE_M"] for item in single[:5]} == {16}
    assert {item["BLOCK_SIZE_M"] for item in many[:5]} <= {64, 128, 256}
    assert not any(item["BLOCK_SIZE_M"] * item["BLOCK_SIZE_N"] / item["num_warps"] / 32 > 192 for item in many)


def test_where_weights_bound_all_alike_screening_looks_behind_them() -> None:
    """A batch of 32 tokens reads all weights once whatever the tiles; vLLM's timed file has 16 x 128 x 128, of 308."""
    device, engine = load_device("h100"), ENGINES["vllm-moe"]
    items = [item for item in tried(engine, MIXTRAL, device)[0] if item["GROUP_SIZE_M"] == 16]
    timed = dict(zip(FIELDS, (16, 128, 128, 16, 4, 4), strict=True))
    for batch in (16, 24, 32):
        assert timed in [item for item, _ in screened(items, MIXTRAL, batch, Routing(), device)[:10]]


def test_what_runs_without_a_file_lies_in_a_file_s_fields() -> None:
    """Every engine, layer and batch size; vLLM's takes higher tiles of larger batches."""
    for name, layers in (
        ("vllm-moe", (MIXTRAL, DEEPSEEK)),
        ("sglang-moe", (MIXTRAL, DEEPSEEK)),
        ("vllm-w8a8", (LINEAR,)),
    ):
        for layer in layers:
            assert all(tuple(ENGINES[name].untuned(layer, batch)) == FIELDS for batch in BATCHES)
    narrow = [ENGINES["vllm-moe"].untuned(DEEPSEEK, batch) for batch in (4, 8, 16)]
    assert [(item["BLOCK_SIZE_N"], item["num_stages"]) for item in narrow] == [(64, 4), (64, 3), (128, 3)]
    rows = [ENGINES["vllm-moe"].untuned(MIXTRAL, batch)["BLOCK_SIZE_M"] for batch in BATCHES]
    assert rows == sorted(rows) and (rows[0], rows[-1]) == (16, 128)
