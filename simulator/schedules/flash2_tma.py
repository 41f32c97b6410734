"""FlashAttention-2 forward with tensor descriptors: the copy engine (TMA) brings whole tiles, past all registers.

    for each item (head, q_tile), one CTA each:         grid, in cta_order
        TMA: Q                                          no thread computes an address
        for j in key tiles:                             pipelined num_stages deep
            TMA: K[j], V[j];  S = Q K^T;  online softmax;  O = O * alpha + P V
        O = O / l;  store O, LSE                        plain stores

| tensor | times read | times written |
|---|---|---|
| Q | 1 | 0 |
| K | q_tiles * group | 0 |
| V | q_tiles * group | 0 |
| O | 0 | 1 |
| LSE | 0 | 1 |

(not causal; q_tiles = ceil(M / block_m), group = H / G. A causal mask skips the key tiles above the diagonal.)

The key tiles are those of flash2, in two loops, without and with a mask.
With warp_specialize = 1 there is one loop, with the mask where any tile needs it:
a producer warp group only loads, and on Hopper two consumer groups share the rows of the tile.

Source: Shah et al., FlashAttention-3 (2024), sections 3.1 (warp specialisation, TMA) and 3.3 (fp8);
what Triton 3.6 compiles.
"""

from dataclasses import replace

from ..device.device import Device
from ..launch.program import Launch, Resources
from ..limits import TMA_CAPABILITY, TMA_STRIDE_BYTES, WARP_THREADS
from ..problems.attention import AttentionProblem
from ..residency.registers_and_smem import REGISTER_GRANULE, exchanged_bytes, tensor_instruction
from .config import Config
from .contract import Schedule
from .coverage import SPECIALISED, TILED, Coverage
from .flash2 import SCHEDULE as FLASH2
from .flash2 import launch_of, resources_of
from .options import BLOCK_M, BLOCK_N, CTA_ORDER, KV_ORDER, NUM_STAGES, NUM_WARPS, PERSISTENT, declared, number, tiled
from .tiles import padded_head_dim, suited_to_wide_heads

SPECIALISED_WARPS = {"wgmma": (8, 12), "tcgen05": (4, 12), "mma": (4, 8)}
"""Tensor instruction -> warps that compute, and all warps, of a CTA that asked for 4 (compiled by Triton 3.6)."""

WARP_SPECIALIZE = number(
    "warp_specialize",
    "1: warp-specialized, some warps load, others compute.",
    (0, 1),
    "0 or 1",
    title="warp spec.",
    space=(0, 1),
    usual=0,
)
SPECIALISED_STAGES = 2
"""Most stages of specialised warps. On an H200 all 56 configurations with 1 or 2 that were tried were right,
and all 48 with 3 or 4 gave NaN as soon as a head had three key tiles or more (Triton 3.6.0, 2026-11-21)."""


def launches(problem: AttentionProblem, config: Config, device: Device) -> tuple[Launch, ...]:
    """The one launch of FlashAttention-2 by TMA.

    Raises:
        ValueError: the device has no TMA, or cannot specialise warps for the problem.
    """
    if float(device.compute_capability) < TMA_CAPABILITY:
        raise ValueError(
            f"{device.name} has compute capability {device.compute_capability} and no TMA: "
            f"flash2_tma needs {TMA_CAPABILITY} or newer; take {FLASH2.name}"
        )
    # Triton splits queries among warps; flash2 can be told otherwise.
    config = config.but(warp_split="q")
    if not config.warp_specialize:
        resources, consumer_warps = resources_of(problem, config, device, num_warps=config.num_warps), 0
    else:
        refusal = conflict(config) or _specialisation_refused(problem, config, device)
        if refusal:
            raise ValueError(refusal)
        resources, consumer_warps = _specialised(problem, config, device)
    launch = launch_of(
        "flash2_tma",
        problem,
        config,
        device,
        path="tma",
        resources=resources,
        consumer_warps=consumer_warps,
        warp_specialize=config.warp_specialize,
    )
    return (launch,)


def conflict(config: Config) -> str | None:
    """Options that do not go together, in one line: Triton 3.6 specialises warps of some configurations only."""
    if not config.warp_specialize:
        return None
    if config.num_warps != 4:
        return f"num_warps = {config.num_warps}: must be 4 with warp_specialize = 1, which adds warps itself"
    if config.block_m not in (128, 256):
        return f"block_m = {config.block_m}: must be 128 or 256 with warp_specialize = 1, which splits its rows in two"
    if config.num_stages > SPECIALISED_STAGES:
        return (
            f"num_stages = {config.num_stages}: must be at most {SPECIALISED_STAGES} with warp_specialize = 1: "
            "with more, Triton 3.6 computes wrong results from the third key tile on"
        )
    return None


def supports(problem: AttentionProblem) -> str | None:
    """Why TMA cannot copy the problem's tensors, in one line; None where it can."""
    row_bytes = problem.head_dim * problem.element_bytes
    if row_bytes % TMA_STRIDE_BYTES:
        return (
            f"head_dim = {problem.head_dim}: must be a multiple of 16 in fp8, TMA copies rows of {TMA_STRIDE_BYTES} B"
        )
    return None


def _specialisation_refused(problem: AttentionProblem, config: Config, device: Device) -> str | None:
    instruction = tensor_instruction(device, config.block_m, config.num_warps)
    if instruction == "wgmma" and problem.element_bytes != 2:
        return f"dtype = {problem.dtype!r}: must be fp16 or bf16 with warp_specialize = 1 on {device.name}"
    return None


def _specialised(problem: AttentionProblem, config: Config, device: Device) -> tuple[Resources, int]:
    """Estimate of a warp-specialised CTA, and how many of its warps compute.

    Registers are dealt out evenly at launch, all that there are; the groups trade them afterwards.
    Every stage holds K and V, since the producer never waits for itself;
    and what Hopper's consumers exchange of O does not lie over the stages, which may be filling for the next item.
    """
    instruction = tensor_instruction(device, config.block_m, config.num_warps)
    compute_warps, warps = SPECIALISED_WARPS[instruction]
    even = device.registers_per_sm // (WARP_THREADS * warps) // REGISTER_GRANULE * REGISTER_GRANULE
    rows, row_elements = config.block_m + 2 * config.block_n * config.num_stages, padded_head_dim(problem)
    o_tile_bytes = config.block_m * row_elements * problem.output_bytes
    exchange_bytes = exchanged_bytes(o_tile_bytes, compute_warps) if instruction == "wgmma" else 0
    resources = replace(
        resources_of(problem, config, device, num_warps=compute_warps),
        registers_per_thread=min(even, device.max_registers_per_thread),
        smem_bytes_per_cta=rows * row_elements * problem.element_bytes + exchange_bytes,
        warps_per_cta=warps,
    )
    return resources, compute_warps


SCHEDULE = Schedule(
    name="flash2_tma",
    summary="FlashAttention-2 with TMA loads: tiles by tensor descriptors, warps specialised on request",
    source="Shah et al. 2024, FlashAttention-3, sections 3.1 and 3.3",
    options=declared(
        tiled(BLOCK_M, 128, 64, 128, 256),
        tiled(BLOCK_N, 64, 32, 64, 128, 256),
        tiled(NUM_WARPS, 4, 4, 8),
        tiled(NUM_STAGES, 3, 2, 3, 4),
        CTA_ORDER,
        KV_ORDER,
        PERSISTENT,
        WARP_SPECIALIZE,
    ),
    launches=launches,
    supports=supports,
    suited=suited_to_wide_heads,
    reads=("causal",),
    conflict=conflict,
    coverage=Coverage(points=TILED + SPECIALISED, weight=5),
)
