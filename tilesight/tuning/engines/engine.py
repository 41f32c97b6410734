"""What the engines search, run untuned, and call their files.

Sources, read in November 2026: vLLM `benchmarks/kernels/benchmark_moe.py`, `benchmark_w8a8_block_fp8.py` (spaces, batch
sizes), `fused_moe.py`, `fp8_utils.py` (names of files, what runs without one, of 0.33.0); SGLang 0.5.23
`benchmark/kernels/fused_moe_triton/common_utils.py` and `fused_moe_triton_config.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .layer import Layer

Configuration = dict[str, int]
BATCHES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096)
"""Tokens that all three tuners measure."""
GROUP = "GROUP_SIZE_M"
FIELDS = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", GROUP, "num_warps", "num_stages")
"""Of an entry, in the order of the files."""
SPACE: Mapping[str, tuple[int, ...]] = {
    "BLOCK_SIZE_M": (16, 32, 64, 128, 256),
    "BLOCK_SIZE_N": (32, 64, 128, 256),
    "BLOCK_SIZE_K": (64, 128, 256),
    GROUP: (1, 16, 32, 64),
    "num_warps": (4, 8),
    "num_stages": (2, 3, 4, 5),
}
"""Values that vLLM and SGLang try for a mixture of experts: 1,920 configurations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine's kernel, and its tuning files.

    Args:
        name: as `--format` has it; package: that is installed; kernels: `MODULE:KERNEL` in it, the newest place first.
        needs: what a layer must be told by; space: parameter -> values that its own tuner tries.
        takes: whether its tuner tries a configuration for a layer; untuned: what runs without a file, at a batch size.
        file: path below the folder that the engine is told, from layer, name of the device and version of Triton.
        has_version: whether the file says which Triton made it; variable: by which the engine is told the folder.
    """

    name: str
    package: str
    kernels: tuple[str, ...]
    needs: tuple[str, ...]
    space: Mapping[str, tuple[int, ...]]
    takes: Callable[[Layer, Configuration], bool]
    untuned: Callable[[Layer, int], Configuration]
    file: Callable[[Layer, str, str], str]
    has_version: bool = False
    variable: str = ""

    @property
    def experts(self) -> bool:
        """Whether its layer is a mixture of them."""
        return "E" in self.needs


def _whole_blocks(layer: Layer, tried: Configuration) -> bool:
    """Whether tiles are whole blocks of scales, or whole parts of one, as vLLM's tuner has it."""
    tile = tried["BLOCK_SIZE_N"], tried["BLOCK_SIZE_K"]
    return not layer.block or all(
        not (size % block and block % size) for size, block in zip(tile, layer.block, strict=True)
    )


def _any(layer: Layer, tried: Configuration) -> bool:
    return True


def _within_block(layer: Layer, tried: Configuration) -> bool:
    """Whether a step along k has one scale."""
    return not layer.block or not layer.block[1] % tried["BLOCK_SIZE_K"]


def _entry(*values: int) -> Configuration:
    return dict(zip(FIELDS, values, strict=True))


def _vllm_untuned(layer: Layer, batch: int) -> Configuration:
    if layer.block:
        rows, group = 16 if batch <= 64 else 64, 1 if batch <= 16 else 32
        narrow = batch <= 8 and not layer.block[0] % 64
        return _entry(
            rows, 64 if narrow else layer.block[0], layer.block[1], group, 4, 4 if narrow and batch <= 4 else 3
        )
    rows = next((rows for most, rows in ((32, 16), (96, 32), (512, 64)) if batch <= most), 128)
    deep = bool(layer.dtype) or batch <= 64
    grouped = batch // layer.experts > 128
    return _entry(
        rows,
        64 if batch <= 64 else 128,
        128 if deep else 64,
        16 if grouped else 1,
        4 if batch <= 128 else 8,
        4 if batch <= 32 else 3,
    )


def _sglang_untuned(layer: Layer, batch: int) -> Configuration:
    few = batch <= layer.experts
    if layer.block:
        return _entry(64, *layer.block, 32, 4, 3)
    if layer.dtype:
        return _entry(64, 128, 128, 1, 4, 4) if few else _entry(128, 256, 128, 32, 8, 4)
    # These name neither warps nor stages: Triton's own are 4 and 3.
    return _entry(16, 32, 64, 1, 4, 3) if few else _entry(64, 64, 32, 8, 4, 3)


def _w8a8_untuned(layer: Layer, batch: int) -> Configuration:
    assert layer.block
    return _entry(64, *layer.block, 32, 4, 2)


def _vllm_file(layer: Layer, device_name: str, triton: str) -> str:
    name = "NVIDIA_H200" if "H200" in device_name.split("_") else device_name  # one file for the whole family
    block = f",block_shape=[{layer.block[0]},{layer.block[1]}]" if layer.block else ""
    return f"E={layer.experts},N={layer.n},device_name={name}{_dtype(layer)}{block}.json"


def _sglang_file(layer: Layer, device_name: str, triton: str) -> str:
    block = f",block_shape=[{layer.block[0]}, {layer.block[1]}]" if layer.block else ""  # with the space
    folder = f"configs/triton_{triton.replace('.', '_')}"
    return f"{folder}/E={layer.experts},N={layer.n},device_name={device_name}{_dtype(layer)}{block}.json"


def _w8a8_file(layer: Layer, device_name: str, triton: str) -> str:
    assert layer.block
    block = f"[{layer.block[0]},{layer.block[1]}]"
    return f"N={layer.n},K={layer.k},device_name={device_name}{_dtype(layer)},block_shape={block}.json"


def _dtype(layer: Layer) -> str:
    return f",dtype={layer.dtype}" if layer.dtype else ""


VLLM, SGLANG = "vllm.model_executor.layers", "sglang.srt.layers.moe"
FUSED_MOE = "fused_moe_triton_kernels:fused_moe_kernel"
ENGINES = {
    engine.name: engine
    for engine in (
        Engine(
            name="vllm-moe",
            package="vllm",
            kernels=(f"{VLLM}.fused_moe.fused_moe:fused_moe_kernel",),
            needs=("E", "N", "hidden", "topk"),
            space=SPACE,
            takes=_whole_blocks,
            untuned=_vllm_untuned,
            file=_vllm_file,
            has_version=True,
            variable="VLLM_TUNED_CONFIG_FOLDER",
        ),
        Engine(
            name="sglang-moe",
            package="sglang",
            kernels=(
                f"sglang.kernels.ops.moe.{FUSED_MOE}",
                f"{SGLANG}.moe_runner.triton_utils.{FUSED_MOE}",
                f"{SGLANG}.fused_moe_triton.{FUSED_MOE}",
            ),
            needs=("E", "N", "hidden", "topk"),
            space=SPACE,
            takes=_any,
            untuned=_sglang_untuned,
            file=_sglang_file,
            variable="SGLANG_MOE_CONFIG_DIR",
        ),
        Engine(
            name="vllm-w8a8",
            package="vllm",
            kernels=(
                "vllm.model_executor.kernels.linear.scaled_mm.triton:_w8a8_triton_block_scaled_mm",
                f"{VLLM}.quantization.utils.fp8_utils:_w8a8_triton_block_scaled_mm",
                f"{VLLM}.quantization.utils.fp8_utils:_w8a8_block_fp8_matmul",
            ),
            needs=("N", "K"),
            space={**SPACE, "BLOCK_SIZE_K": (64, 128)},
            takes=_within_block,
            untuned=_w8a8_untuned,
            file=_w8a8_file,
        ),
    )
}
