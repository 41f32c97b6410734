"""The flash3_backward kernel without a GPU: what it takes, and what the compiler makes of it."""

import re
import subprocess
import sys

import pytest
from tilesight.kernels.launch.availability import missing_package

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
import triton
from support.hopper import Hopper
from tilesight.kernels import differentiable
from tilesight.kernels.backward.call import problem_of_backward
from tilesight.kernels.flash3.entry import TRITON
from tilesight.kernels.flash3_backward import flash3_backward
from tilesight.kernels.flash3_backward.entry import refused

import tilesight

if not triton.__version__.startswith(f"{TRITON}."):
    pytest.skip(f"written in the Gluon of Triton {TRITON}", allow_module_level=True)

from tilesight.kernels.flash3_backward.call import Prepared, prepare
from tilesight.kernels.flash3_backward.kernel import gradients_kernel

SMEM_BYTES = 227 * 1024


def prepared(
    dim: int,
    causal: bool,
    rows: int = 1000,
    keys: int = 1024,
    dtype: torch.dtype = torch.float16,
    device: str = "cpu",
) -> Prepared:
    """Launches of a problem with grouped heads, two query heads a KV head."""
    q, o, do = (torch.zeros(2, 4, rows, dim, dtype=dtype, device=device) for _ in range(3))
    k, v = (torch.zeros(2, 2, keys, dim, dtype=dtype, device=device) for _ in range(2))
    given = {"q": q, "k": k, "v": v, "o": o, "lse": torch.zeros(2, 4, rows, device=device), "do": do}
    return prepare(given, problem_of_backward(given, causal=causal, window=0))


def test_what_it_cannot_take_is_refused_with_what_to_use_instead() -> None:
    """Tensors on a CPU, other element types and head dimensions."""
    q, k, v, o, do = (torch.zeros(1, 2, 8, 64, dtype=torch.float16) for _ in range(5))
    lse = torch.zeros(1, 2, 8)
    with pytest.raises(ValueError, match=r"^tensors are on cpu: flash3_backward needs .* 9\.0: use flash_backward$"):
        flash3_backward(q, k, v, o, lse, do)
    with pytest.raises(ValueError, match=r"^do is "):
        flash3_backward(q, k, v, o, lse, do[:, :1])
    text = "q has dtype float32: flash3_backward has float16, bfloat16: use flash_backward"
    assert refused(torch.float32, 64) == text
    assert refused(torch.float16, 80) == "head_dim is 80: flash3_backward has 64, 128: use flash_backward"
    assert refused(torch.bfloat16, 128) == ""


def test_attention_takes_the_faster_gradients_by_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Hopper, without a window, from one tile of 128 keys for each SM on."""
    sms = type("Properties", (), {"multi_processor_count": 132})
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: sms)
    monkeypatch.setattr(differentiable, "why_not_backward", lambda q: refused(q.dtype, q.shape[-1]))

    def taken(dtype: torch.dtype, dim: int, slabs: int = 16, keys: int = 2048, window: int = 0) -> bool:
        q = torch.empty(1, slabs, 64, dim, dtype=dtype, device="meta")
        k = torch.empty(1, slabs, keys, dim, dtype=dtype, device="meta")
        return differentiable.takes_flash3_backward(q, k, window)

    assert all(taken(dtype, dim) for dtype in (torch.float16, torch.bfloat16) for dim in (64, 128))
    assert not taken(torch.float32, 64) and not taken(torch.float16, 256)
    assert not taken(torch.float16, 128, window=100) and not taken(torch.float16, 128, slabs=8, keys=1024)
    monkeypatch.undo()
    assert not differentiable.takes_flash3_backward(*(torch.zeros(9, 64, 128, 64, dtype=torch.float16),) * 2, 0)


@pytest.mark.parametrize(("dim", "block_m"), [(64, 128), (128, 64)])
def test_launches_cover_queries_keys_and_sums(dim: int, block_m: int) -> None:
    """A CTA for each key tile of each KV head; whole tiles of sums and of rows' numbers for every query."""
    launch = prepared(dim, causal=True, rows=1000, keys=1030)
    q_tiles = -(-1000 // block_m)
    assert launch.main[0] == (2 * 2 * -(-1030 // 128),)
    assert launch.before[0] == (q_tiles, 8) and launch.after[0] == (2 * q_tiles, 8)
    numbers, sums = launch.before[1][3:5]
    assert numbers.numel() == 8 * q_tiles * block_m * 2 and sums.numel() == 8 * q_tiles * block_m * dim
    assert [tuple(x.shape) for x in launch.gradients] == [(2, 4, 1000, dim), *[(2, 2, 1030, dim)] * 2]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("dim", [64, 128])
def test_it_compiles_for_hopper(monkeypatch: pytest.MonkeyPatch, dim: int, dtype: str) -> None:
    """Room on an SM; P and dS operands in registers; dQ added by TMA; nothing spills; all is rounded two by two."""
    monkeypatch.setattr(triton.runtime.driver, "_active", Hopper())
    launch = prepared(dim, causal=False, dtype={"f16": torch.float16, "bf16": torch.bfloat16}[dtype])
    compiled = gradients_kernel.warmup(*launch.main[1], num_warps=4, grid=launch.main[0])
    assert compiled.metadata.shared <= SMEM_BYTES
    ptx = compiled.asm["ptx"]
    assert ".local" not in ptx and "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add" in ptx
    # Of two groups: 32 products, 8 of them with A in registers.
    products = re.findall(rf"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.{dtype}\.{dtype} [^;]*;", ptx)
    assert len(products) == 64
    assert "F2F." not in compiled.asm["sass"]


@pytest.mark.parametrize(("dim", "block_m"), [(64, 128), (128, 64)])
def test_causal_tiles_are_loaded_once_for_each_key_tile_that_sees_them(dim: int, block_m: int) -> None:
    """Consumers loop over tiles under the mask and then over the others, the producer over all: one loop, followed."""
    with tilesight.capture("h200") as launches:
        prepared(dim, causal=True, rows=1024, keys=1024, device="meta").run()
    row = tilesight.predict(launches, "h200").rows[1]
    assert row.known_accesses == row.accesses and not row.notes
    pairs = sum(1024 // block_m - key // block_m for key in range(0, 1024, 128))
    rows_read = 4 * 2 * pairs * block_m
    read = rows_read * (2 * dim * 2 + 8) + 2 * 2 * 1024 * dim * 2 * 2
    assert row.traffic.smem_fill_bytes == pytest.approx(read, rel=1e-3)


def test_gluon_is_imported_where_it_is_used() -> None:
    """Another Triton, whose Gluon is another, and the interpreter still import `attention` and what refuses."""
    code = "import sys, tilesight.kernels.differentiable; print([m for m in sys.modules if 'backward.kernel' in m])"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"
