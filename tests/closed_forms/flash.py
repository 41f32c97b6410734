"""FlashAttention in training: rows of a block go in, passes of the forward and backward kernels come out.

S and P never reach device memory, in neither direction. What is read again and again instead are the rows of Q, O and
their gradients, once for each block of keys (FlashAttention-1), or K and V, once for each block of queries.
"""

from closed_forms.passes import Kernel
from tilesight.simulator.arguments import whole
from tilesight.simulator.integers import cdiv
from tilesight.simulator.problems.attention import AttentionProblem


def flash1_forward(problem: AttentionProblem, block_n: int) -> tuple[Kernel, ...]:
    """FlashAttention-1: zeros, then the loop over key blocks.

    Args:
        block_n: B_c, rows of a key block.

    Raises:
        ValueError: a block has no rows.

    Source: FlashAttention (2022), Algorithm 1, line 2, and lines 5 to 13.
    """
    blocks, shared = _key_blocks(problem, block_n), problem.head_group
    sums = {"O": blocks, "l": blocks, "m": blocks}
    return (
        Kernel(name="zeros", writes={"O": 1, "l": 1, "m": 1}),
        Kernel(name="loop", reads={"K": shared, "V": shared, "Q": blocks, **sums}, writes=sums, products=2),
    )


def flash1_backward(problem: AttentionProblem, block_n: int) -> tuple[Kernel, ...]:
    """FlashAttention-1: zeros, then the loop over key blocks, which computes S again.

    Args:
        block_n: B_c, rows of a key block.

    Raises:
        ValueError: a block has no rows.

    Source: FlashAttention (2022), Algorithm 4, line 5, and lines 6 to 24.
    """
    blocks, shared = _key_blocks(problem, block_n), problem.head_group
    reads = {name: blocks for name in ("Q", "O", "dO", "dQ", "l", "m")}
    return (
        Kernel(name="zeros", writes={"dQ": 1, "dK": 1, "dV": 1}),
        Kernel(
            name="loop", reads={"K": shared, "V": shared, **reads}, writes={"dQ": blocks, "dK": 1, "dV": 1}, products=5
        ),
    )


def flash1_kernels(problem: AttentionProblem, block_n: int) -> tuple[Kernel, Kernel]:
    """The two kernels of FlashAttention-1's first release, which read less than its algorithms say.

    Sums are not read before the first block has written them, l and m are one number, and O meets dO in the first block
    only, which keeps the sums of their products. The release keeps unfinished sums of O and dQ in fp32; here they have
    the type of O and Q, as the paper counts them.

    Args:
        block_n: rows of a key block; the release has 256 for head dims up to 64, and 128 for 128.

    Raises:
        ValueError: a block has no rows.

    Source: Dao-AILab/flash-attention at 1fcbe6f0 (May 2022): csrc/stream_attn/src/fmha_fprop_kernel_1xN.h,
    fmha_dgrad_kernel_1xN_loop.h (`Is_first`); block rows from fmha_fprop_fp16_kernel.sm80.cu.
    """
    blocks, shared = _key_blocks(problem, block_n), problem.head_group
    keys, again = {"K": shared, "V": shared}, blocks - 1
    forward = Kernel(
        name="forward",
        reads={**keys, "Q": blocks, "O": again, "LSE": again},
        writes={"O": blocks, "LSE": blocks},
        products=2,
    )
    backward = Kernel(
        name="backward",
        reads={**keys, "Q": blocks, "dO": blocks, "LSE": blocks, "O": 1, "dQ": again, "delta": again},
        writes={"dQ": blocks, "dK": 1, "dV": 1, "delta": 1},
        products=5,
    )
    return forward, backward


def flash2_forward(problem: AttentionProblem, block_m: int) -> tuple[Kernel, ...]:
    """FlashAttention-2: a loop over query blocks, which keeps O on chip.

    Args:
        block_m: B_r, rows of a query block.

    Raises:
        ValueError: a block has no rows.

    Source: FlashAttention-2 (2023), Algorithm 1.
    """
    passes = cdiv(problem.seqlen_q, whole("block_m", block_m)) * problem.head_group
    return (Kernel(name="loop", reads={"Q": 1, "K": passes, "V": passes}, writes={"O": 1, "LSE": 1}, products=2),)


def flash2_backward(problem: AttentionProblem, block_n: int) -> tuple[Kernel, ...]:
    """FlashAttention-2: zeros, delta = rowsum(dO * O), then the loop over key blocks.

    The algorithm lists O among what the loop loads, and has no use for it there; it is left out.

    Args:
        block_n: B_c, rows of a key block.

    Raises:
        ValueError: a block has no rows.

    Source: FlashAttention-2 (2023), Algorithm 2.
    """
    blocks, shared = _key_blocks(problem, block_n), problem.head_group
    reads = {name: blocks for name in ("Q", "dO", "dQ", "LSE", "delta")}
    return (
        Kernel(name="zeros", writes={"dQ": 1}),
        Kernel(name="delta", reads={"O": 1, "dO": 1}, writes={"delta": 1}),
        Kernel(
            name="loop", reads={"K": shared, "V": shared, **reads}, writes={"dQ": blocks, "dK": 1, "dV": 1}, products=5
        ),
    )


def _key_blocks(problem: AttentionProblem, block_n: int) -> int:
    return cdiv(problem.seqlen_k, whole("block_n", block_n))
