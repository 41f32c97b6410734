"""FlashAttention-2 backward: key tiles outside, queries and gradients of outputs streamed past them.

    delta: for each strip of rows, one CTA each:    load O, dO;  delta = rowsum(dO * O);  store delta
    form = two_kernels:
    key_gradients: for each (KV head, k_tile), one CTA each:
        load K, V
        for each head of the group, i in query tiles that see the key tile:     pipelined num_stages deep
            load Q[i], dO[i], LSE[i], delta[i];  P = exp(Q K^T - LSE);  dV += P^T dO
            dS = P (dO V^T - delta);  dK += dS^T Q
        store dK, dV
    query_gradients: for each (head, q_tile), one CTA each:
        load Q, dO, LSE, delta
        for j in key tiles that the query tile sees:                            pipelined num_stages deep
            load K[j], V[j];  P, dS as above;  dQ += dS K
        store dQ
    form = one_pass:
    prepare:   delta, and zeros in dQ_sum
    gradients: key_gradients, and in its loop dQ_sum[i] += dS K by atomic additions in L2
    convert:   for each strip of rows, one CTA each:    load dQ_sum;  store dQ

delta:

| tensor | times read | times written |
|---|---|---|
| O | 1 | 0 |
| dO | 1 | 0 |
| DELTA | 0 | 1 |

key_gradients:

| tensor | times read | times written |
|---|---|---|
| Q | k_tiles | 0 |
| K | 1 | 0 |
| V | 1 | 0 |
| dO | k_tiles | 0 |
| LSE | k_tiles | 0 |
| DELTA | k_tiles | 0 |
| dK | 0 | 1 |
| dV | 0 | 1 |

query_gradients:

| tensor | times read | times written |
|---|---|---|
| Q | 1 | 0 |
| K | q_tiles * group | 0 |
| V | q_tiles * group | 0 |
| dO | 1 | 0 |
| LSE | 1 | 0 |
| DELTA | 1 | 0 |
| dQ | 0 | 1 |

prepare:

| tensor | times read | times written |
|---|---|---|
| O | 1 | 0 |
| dO | 1 | 0 |
| DELTA | 0 | 1 |
| dQ_sum | 0 | 1 |

gradients:

| tensor | times read | times written |
|---|---|---|
| Q | k_tiles | 0 |
| K | 1 | 0 |
| V | 1 | 0 |
| dO | k_tiles | 0 |
| LSE | k_tiles | 0 |
| DELTA | k_tiles | 0 |
| dK | 0 | 1 |
| dV | 0 | 1 |
| dQ_sum | 0 | k_tiles |

convert:

| tensor | times read | times written |
|---|---|---|
| dQ_sum | 1 | 0 |
| dQ | 0 | 1 |

(q_tiles = ceil(M / block_m), k_tiles = ceil(N / block_n), group = H / G; not causal. A causal mask skips query tiles
above a key tile's diagonal, and key tiles above a query tile's. In the fixed order `prepare_ordered` also zeroes a
counter for each query tile, and `ordered_gradients` reads and raises it: a sector each, for each pair of tiles.)

Source: Dao, FlashAttention-2 (2023), Algorithm 2, its atomic dQ and its deterministic option (`flash_bwd_kernel.h`);
two kernels as in the Triton tutorial 06-fused-attention.
"""

from dataclasses import replace

from ...device.device import Device
from ...dtypes import DTYPES
from ...integers import cdiv
from ...launch.outline import outlined_launch
from ...launch.program import Launch, Tensor
from ...problems.attention_backward import AttentionBackwardProblem
from ..config import Config
from ..contract import Schedule
from ..coverage import BACKWARD, Coverage, listed
from ..options import BLOCK_M, BLOCK_N, NUM_STAGES, NUM_WARPS, Value, declared, number, tiled, word
from ..tiles import LOG2_E, NARROW_HEAD, STATISTIC, key_tensor, product_constants, query_tensor, statistic_tensor
from .launches import delta_launch, delta_tensor, key_gradient, output_gradient, row_launch

FORM = word(
    "form",
    "Whether dQ has a kernel of its own (two_kernels), or is added up beside dK and dV (one_pass).",
    ("two_kernels", "one_pass"),
    usual=None,
)
DETERMINISTIC = number(
    "deterministic",
    "Whether one_pass adds in a fixed order, so that dQ has the same bits each time.",
    (0, 1),
    "0 or 1",
    title="determ.",
    usual=0,
)


def launches(problem: AttentionBackwardProblem, config: Config, device: Device) -> tuple[Launch, ...]:
    """The three launches of a form."""
    if config.form == "two_kernels":
        return (
            delta_launch("delta", problem),
            _key_gradients("key_gradients", problem, config),
            _query_gradients(problem, config),
        )
    sums: tuple[Tensor, ...] = (_query_sum(problem),)
    last = row_launch("convert", problem, (*sums, query_tensor(problem, "dQ", "output")), scale=problem.head_dim**-0.5)
    if not config.deterministic:
        first = delta_launch("prepare", problem, *sums)
        return first, _key_gradients("gradients", problem, config, *sums), last
    turn = _turns(problem, config.block_m)
    first = delta_launch("prepare_ordered", problem, *sums, turn, turns=turn.slabs * turn.rows)
    return first, _key_gradients("ordered_gradients", problem, config, *sums, turn), last


def supports(problem: AttentionBackwardProblem) -> str | None:
    """Gradients need 16 bits or more."""
    return "fp8 is too coarse for gradients: try fp16 or bf16" if problem.dtype == "fp8" else None


def suited(problem: AttentionBackwardProblem, device: Device) -> dict[str, Value]:
    """Two stages where heads are wide, so that two CTAs share an SM."""
    return {"num_stages": 2} if problem.head_dim > NARROW_HEAD else {}


def conflict(config: Config) -> str | None:
    """Where one kernel makes dQ, its order is fixed anyway."""
    if config.deterministic and config.form == "two_kernels":
        return "deterministic = 1: form = two_kernels adds in a fixed order anyway: leave one of the two away"
    return None


def _query_sum(problem: AttentionBackwardProblem) -> Tensor:
    """The sum that becomes dQ, in fp32."""
    return replace(query_tensor(problem, "dQ_sum"), role="scratch", dtype=STATISTIC, pitch_bytes=0)


def _turns(problem: AttentionBackwardProblem, block_m: int) -> Tensor:
    """A counter for each query tile."""
    rows = cdiv(problem.seqlen_q, block_m)
    return replace(statistic_tensor(problem, "TURN", "scratch"), rows=rows, dtype=DTYPES["i32"])


def _key_gradients(name: str, problem: AttentionBackwardProblem, config: Config, *sums: Tensor) -> Launch:
    """Gradients dK and dV, one CTA a key tile. Args: sums: tensors that it adds dQ to, and counts turns in."""
    ctas = problem.batch * problem.kv_heads * cdiv(problem.seqlen_k, config.block_n)
    return _products(name, problem, config, ctas, key_gradient(problem, "dK"), key_gradient(problem, "dV"), *sums)


def _query_gradients(problem: AttentionBackwardProblem, config: Config) -> Launch:
    """Gradient dQ, one CTA a query tile."""
    ctas = problem.batch * problem.heads * cdiv(problem.seqlen_q, config.block_m)
    return _products("query_gradients", problem, config, ctas, query_tensor(problem, "dQ", "output"))


def _products(name: str, problem: AttentionBackwardProblem, config: Config, ctas: int, *outputs: Tensor) -> Launch:
    inputs = (
        query_tensor(problem),
        key_tensor(problem, "K"),
        key_tensor(problem, "V"),
        output_gradient(problem),
        statistic_tensor(problem, "LSE", "input"),
        delta_tensor(problem),
    )
    masked = {"causal": problem.causal, "window": problem.window}
    return outlined_launch(
        name,
        (ctas, 1, 1),
        (*inputs, *outputs),
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        dtype=problem.dtype,
        constants=product_constants(problem, config.block_m, config.block_n) | masked,
        arguments={
            "seqlen_q": problem.seqlen_q,
            "seqlen_k": problem.seqlen_k,
            "scale": problem.head_dim**-0.5,
            "scale_log2": LOG2_E / problem.head_dim**0.5,
        },
    )


SCHEDULE = Schedule(
    name="flash_backward",
    summary="dK, dV by key tiles; dQ by query tiles in a kernel of its own, or added up in the same pass",
    source="Dao 2023, FlashAttention-2, Algorithm 2",
    problem=AttentionBackwardProblem,
    options=declared(
        tiled(BLOCK_M, 64, 64, 128),
        tiled(BLOCK_N, 64, 64, 128),
        tiled(NUM_WARPS, 4, 4, 8),
        tiled(NUM_STAGES, 3, 2, 3),
        replace(FORM, space=tuple(FORM.values)),
        DETERMINISTIC,
    ),
    launches=launches,
    supports=supports,
    reads=("causal", "window"),
    suited=suited,
    conflict=conflict,
    outlined=True,
    coverage=Coverage(
        points=(
            *BACKWARD,
            listed("middle", form="one_pass"),
            listed("causal", form="one_pass", block_n=128, num_warps=8),
            listed("small", form="one_pass", deterministic=1),
        ),
        weight=2,
    ),
)
