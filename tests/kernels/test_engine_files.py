"""`tilesight tune --format vllm-moe` and its like: files of engines from kernels with the engines' parameters."""

import json
from pathlib import Path
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package

from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import triton
from tilesight.kernels.capture.file import Asked, capture_calls
from tilesight.kernels.compile.call import KernelLaunch

from tilesight.tuning.engines.engine import FIELDS
from tilesight.tuning.engines.layer import Layer, plain
from tilesight.tuning.engines.tune import LAUNCHES

pytestmark = pytest.mark.usefixtures("own_cache")

EXPERTS_IN_FP8 = Layer(n=256, k=256, experts=4, topk=2, dtype="fp8_w8a8", block=(128, 128))
SCALED_LAYERS = {
    "vllm-moe": EXPERTS_IN_FP8,
    "sglang-moe": EXPERTS_IN_FP8,
    "vllm-w8a8": Layer(n=256, k=256, dtype="fp8_w8a8", block=(128, 128)),
}
ENTRY = dict(zip(FIELDS, (16, 64, 128, 1, 4, 3), strict=True))
KERNELS = Path(__file__).with_name("engine_kernels.py")
MOE, SCALED = f"{KERNELS}:fused_moe_kernel", f"{KERNELS}:block_scaled"
EXPERTS = ("--layer", "E=4, N=128, hidden=128, topk=2", "--batch-sizes", "2")
TILES = tuple(
    word
    for text in ("BLOCK_SIZE_M=16", "BLOCK_SIZE_N=64", "BLOCK_SIZE_K=64", "num_warps=4", "num_stages=2,3")
    for word in ("--sweep", text)
)
ONE_GROUP = ("--sweep", "GROUP_SIZE_M=1")


def tuned(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What `--json` prints of a tuning file on an H100."""
    assert main(["tune", *words, "--device", "h100", "--workers", "1", "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def error(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that bad input gives."""
    assert main(["tune", *words]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    return printed.err


def test_a_file_of_vllm_holds_the_fastest_configuration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of those that were tried, and of what runs without a file; its time is that of both products."""
    answer = tuned(capsys, MOE, "--format", "vllm-moe", *EXPERTS, *TILES, *ONE_GROUP, "--to", str(tmp_path))
    (launch,) = answer["launches"]
    configurations = launch["configurations"]
    assert [item["time_s"] for item in configurations] == sorted(item["time_s"] for item in configurations)
    assert len(configurations) == 3 and launch["default"]["BLOCK_SIZE_K"] == 128
    content = json.loads((tmp_path / "E=4,N=128,device_name=NVIDIA_H100_80GB_HBM3.json").read_text())
    assert content == {"triton_version": triton.__version__, "2": configurations[0]["configuration"]}
    # Weights of all four experts, of both products, are read at least once.
    assert configurations[0]["hbm_bytes"] >= 4 * (256 * 128 + 128 * 128) * 2


def test_a_file_of_sglang_lies_in_the_folder_of_its_triton(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Its values are those that vLLM's file has of the same kernel."""
    tuned(capsys, MOE, "--format", "sglang-moe", *EXPERTS, *TILES, *ONE_GROUP, "--to", str(tmp_path))
    folder = tmp_path / "configs" / f"triton_{triton.__version__.replace('.', '_')}"
    content = json.loads((folder / "E=4,N=128,device_name=NVIDIA_H100_80GB_HBM3.json").read_text())
    assert list(content) == ["2"]


def test_a_linear_layer_in_fp8_has_a_file_of_its_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With scales of blocks, which a step along k never leaves."""
    sizes = ("--layer", "N=256, K=256", "--batch-sizes", "16")
    answer = tuned(capsys, SCALED, "--format", "vllm-w8a8", *sizes, *TILES, *ONE_GROUP, "--to", str(tmp_path))
    assert all(item["time_s"] for item in answer["launches"][0]["configurations"])
    (file,) = tmp_path.iterdir()
    assert file.name == "N=256,K=256,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8,block_shape=[128,128].json"


def test_an_old_file_is_ranked_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Its entries alone, at its batch sizes; what runs now is the entry that the engine would take."""
    old = tmp_path / "E=4,N=128,device_name=NVIDIA_A100-SXM4-80GB.json"
    entry = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1, "num_warps": 4}
    old.write_text(json.dumps({"1": {**entry, "num_stages": 2}, "2": {**entry, "num_stages": 3}}))
    words = ("--rerank", str(old), "--layer", "hidden=128, topk=2", "--to", str(tmp_path))
    answer = tuned(capsys, MOE, "--format", "vllm-moe", *words)
    assert [launch["shape"] for launch in answer["launches"]] == [{"batch": 1}, {"batch": 2}]
    assert [launch["default"]["num_stages"] for launch in answer["launches"]] == [2, 3]
    for launch in answer["launches"]:
        assert sorted(item["configuration"]["num_stages"] for item in launch["configurations"]) == [2, 3]
    assert (tmp_path / "E=4,N=128,device_name=NVIDIA_H100_80GB_HBM3.json").exists()


def test_the_fastest_are_tried_with_every_group(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """First with 16 rows of tiles, as vLLM's space has it; four rows of tiles are in order with 16 as with 64."""
    groups = ("--sweep", "GROUP_SIZE_M=1,16,64")
    answer = tuned(capsys, MOE, "--format", "vllm-moe", *EXPERTS, *TILES, *groups, "--to", str(tmp_path))
    configurations = [item["configuration"] for item in answer["launches"][0]["configurations"]]
    assert sorted(
        (item["num_stages"], item["GROUP_SIZE_M"]) for item in configurations if item["BLOCK_SIZE_K"] == 64
    ) == [(stages, group) for stages in (2, 3) for group in (1, 16)]


def test_a_function_launches_what_it_likes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It is called with the sizes, the routes and the configuration that it takes, and all its launches count."""
    file = tmp_path / "own.py"
    file.write_text(
        "import torch, triton, triton.language as tl\n"
        "@triton.jit\n"
        "def copy(x, y, B: tl.constexpr):\n"
        "    at = tl.program_id(0) * B + tl.arange(0, B)\n"
        "    tl.store(y + at, tl.load(x + at))\n"
        "def layer(batch, topk_ids, hidden, config, more=1):\n"
        "    assert topk_ids.shape == (batch, 2) and more == 1\n"
        "    x, y = (torch.empty(1 << 20, device='cuda') for _ in 'xy')\n"
        "    block = config['BLOCK_SIZE_N'] * 8\n"
        "    for _ in range(3):\n"
        "        copy[(x.numel() // block,)](x, y, B=block, num_warps=config['num_warps'])\n"
    )
    answer = tuned(capsys, f"{file}:layer", "--format", "vllm-moe", *EXPERTS, *TILES, *ONE_GROUP, "--to", str(tmp_path))
    times = [item["hbm_bytes"] for item in answer["launches"][0]["configurations"]]
    assert min(times) >= 3 * (4 << 20)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((MOE, "--format", "vllm-moe", "--to", "."), "--layer E is missing: it needs E, N, hidden, topk"),
        (("--format", "vllm-moe", *EXPERTS, "--to", "."), "--format vllm-moe: vllm is not installed here: name its"),
        ((MOE, "--format", "vllm-moe", *EXPERTS), "--format vllm-moe: writes files; name a folder for them by --to"),
        ((MOE, *EXPERTS), "--layer 'E=4, N=128, hidden=128, topk=2': is for --format vllm-moe, sglang-moe, vllm-w8a8"),
        ((SCALED, "--format", "vllm-moe", *EXPERTS, "--to", "."), "has a parameter A, which this version of Tilesight"),
        ((f"{KERNELS}:absent", "--format", "vllm-moe", *EXPERTS, "--to", "."), "there is no absent in it"),
        ((MOE, "--format", "vllm-moe", *EXPERTS, "--sweep", "BLOCK_M=16", "--to", "."), "'BLOCK_M' is unknown"),
        ((MOE, "--format", "vllm-moe", *EXPERTS, "--skew", "-1", "--to", "."), "--skew = -1: must be a number of 0"),
        ((MOE, "--format", "vllm-moe", *EXPERTS[:2], "--batch-sizes", "0", "--to", "."), "must be whole numbers of 1"),
        ((MOE, "--format", "vllm-moe", "--rerank", "none.json", "--to", "."), "--rerank 'none.json': cannot be read"),
        (
            (MOE, "--format", "vllm-moe", *EXPERTS, "--html", "x.html", "--to", "."),
            "--html: not with --format vllm-moe",
        ),
        ((), "tune: name a function, FILE.py:FUNCTION"),
    ],
)
def test_what_cannot_be_tuned_is_said_in_a_line(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    """With what to try, and nothing is written."""
    assert said in error(capsys, *words)


SIGNATURES = {
    "vllm-moe": "a_ptr b_ptr c_ptr b_bias_ptr a_scale_ptr b_scale_ptr topk_weights_ptr sorted_token_ids_ptr "
    "expert_ids_ptr num_tokens_post_padded_ptr N K EM num_valid_tokens stride_am stride_ak stride_be stride_bk "
    "stride_bn stride_cm stride_cn stride_asm stride_ask stride_bse stride_bsk stride_bsn stride_bbe stride_bbn "
    "| group_n group_k naive_block_assignment BLOCK_SIZE_M BLOCK_SIZE_N BLOCK_SIZE_K GROUP_SIZE_M SPLIT_K "
    "MUL_ROUTED_WEIGHT top_k compute_type use_fp8_w8a8 use_int8_w8a8 use_int8_w8a16 per_channel_quant HAS_BIAS SWAP_AB",
    "sglang-moe": "a_ptr a_desc b_ptr b_desc bias_ptr c_ptr a_scale_ptr b_scale_ptr topk_weights_ptr "
    "sorted_token_ids_ptr expert_ids_ptr num_tokens_post_padded_ptr add_mask_ptr N K EM num_valid_tokens stride_am "
    "stride_ak stride_be stride_bk stride_bn stride_bias_e stride_bias_n stride_cm stride_cn stride_asm stride_ask "
    "stride_bse stride_bsk stride_bsn | group_n group_k BLOCK_SIZE_M BLOCK_SIZE_N BLOCK_SIZE_K GROUP_SIZE_M "
    "MUL_ROUTED_WEIGHT top_k compute_type use_fp8_w8a8 use_int8_w8a8 use_int8_w8a16 per_channel_quant even_Ks "
    "c_sorted filter_expert swap_ab FUSE_ADD_TO_OUTPUT MASK_OUTPUT FUSE_SUM_ALL_REDUCE LORA_PRESERVE_BASE ROUTER_TOPK",
    "vllm-w8a8": "A B C As Bs M N K group_n group_k stride_am stride_ak stride_bk stride_bn stride_cm stride_cn "
    "stride_As_m stride_As_k stride_Bs_k stride_Bs_n | BLOCK_SIZE_M BLOCK_SIZE_N BLOCK_SIZE_K GROUP_SIZE_M",
}
"""Parameters of the engines' kernels, as read in November 2026; those behind the bar are constants."""


@pytest.mark.parametrize(
    ("rows", "device", "swapped"), [(16, "h100-sxm", True), (64, "h100-sxm", False), (16, "b200", False)]
)
def test_fp8_products_of_low_tiles_are_transposed_on_hopper(
    rows: int, device: str, swapped: bool, tmp_path: Path
) -> None:
    """As both engines do since 2026, where their kernel takes it: below the 64 rows of a wgmma."""
    run_time, constants = (part.split() for part in SIGNATURES["vllm-moe"].split("|"))
    file = tmp_path / "kernel.py"
    parameters = ", ".join([*run_time, *(f"{constant}: tl.constexpr" for constant in constants)])
    file.write_text(
        "import triton, triton.language as tl\n"
        f"@triton.jit\ndef kernel({parameters}):\n    tl.store(c_ptr + tl.program_id(0), 7.0 if SWAP_AB else 3.0)\n"
    )
    shape = {
        "engine": "vllm-moe",
        "kernel": f"{file}:kernel",
        "layer": plain(SCALED_LAYERS["vllm-moe"]),
        "batch": 40,
        "config": {**ENTRY, "BLOCK_SIZE_M": rows},
        "skew": 0.0,
        "seed": 0,
    }
    (recorded,) = capture_calls(LAUNCHES, Asked(device=device, shapes=(shape,), timeout_s=120))
    texts = [call.job["ttir"] for call in recorded.calls if isinstance(call, KernelLaunch)]
    assert len(texts) == 2 and all(("7.0" in text) == swapped for text in texts)


@pytest.mark.parametrize("name", SIGNATURES)
def test_kernels_with_the_engines_parameters_are_launched(name: str, tmp_path: Path) -> None:
    """All of them have values, in FP8 with scales of blocks, and grids are whole tiles of the padded rows."""
    run_time, constants = (part.split() for part in SIGNATURES[name].split("|"))
    file, layer = tmp_path / "kernel.py", plain(SCALED_LAYERS[name])
    parameters = ", ".join([*run_time, *(f"{constant}: tl.constexpr" for constant in constants)])
    c = "C" if "C" in run_time else "c_ptr"
    file.write_text(
        "import triton, triton.language as tl\n"
        f"@triton.jit\ndef kernel({parameters}):\n    tl.store({c} + tl.program_id(0), 0.0)\n"
    )
    shape = {
        "engine": name,
        "kernel": f"{file}:kernel",
        "layer": layer,
        "batch": 40,
        "config": {**ENTRY, "BLOCK_SIZE_K": 256},
        "skew": 0.0,
        "seed": 0,
    }
    (recorded,) = capture_calls(LAUNCHES, Asked(device="h100-sxm", shapes=(shape,), timeout_s=120))
    assert not recorded.ended and all(isinstance(call, KernelLaunch) for call in recorded.calls)
    grids = [call.grid[0] for call in recorded.calls]
    # 80 rows of 4 experts, 15 places more for each: 9 tiles of 16; 40 tokens: 3 tiles.
    assert grids == ([3 * 4] if name == "vllm-w8a8" else [9 * 8, 9 * 4])
