"""Naive attention backward: P, dP and dS go through device memory, one kernel a product.

    delta:              for each strip of rows, one CTA each:    load O, dO;  delta = rowsum(dO * O);  store delta
    probabilities:      for each (head, q_tile, k_tile):         (only where the forward pass has not kept P)
                            load Q, K, LSE;  P = exp(Q K^T - LSE);  mask;  store P
    value_gradients:    for each (KV head, k_tile), one CTA each:
                            for each head of the group, i in query tiles:    load P[i], dO[i];  dV += P^T dO
                            store dV
    grad_probabilities: for each (head, q_tile, k_tile):         load dO, V;  dP = dO V^T;  store dP
    grad_scores:        for each (head, q_tile, k_tile):         load P, dP, delta;  dS = P (dP - delta);  store dS
    naive_query_gradients: for each (head, q_tile), one CTA each:
                            for j in key tiles:    load dS[j], K[j];  dQ += dS K
                            store dQ
    naive_key_gradients: as value_gradients, of dS and Q:    dK += dS^T Q

delta:

| tensor | times read | times written |
|---|---|---|
| O | 1 | 0 |
| dO | 1 | 0 |
| DELTA | 0 | 1 |

probabilities:

| tensor | times read | times written |
|---|---|---|
| Q | k_tiles | 0 |
| K | q_tiles * group | 0 |
| LSE | k_tiles | 0 |
| P | 0 | 1 |

value_gradients:

| tensor | times read | times written |
|---|---|---|
| P | 1 | 0 |
| dO | k_tiles | 0 |
| dV | 0 | 1 |

grad_probabilities:

| tensor | times read | times written |
|---|---|---|
| dO | k_tiles | 0 |
| V | q_tiles * group | 0 |
| dP | 0 | 1 |

grad_scores:

| tensor | times read | times written |
|---|---|---|
| P | 1 | 0 |
| dP | 1 | 0 |
| DELTA | k_tiles | 0 |
| dS | 0 | 1 |

naive_query_gradients:

| tensor | times read | times written |
|---|---|---|
| dS | 1 | 0 |
| K | q_tiles * group | 0 |
| dQ | 0 | 1 |

naive_key_gradients:

| tensor | times read | times written |
|---|---|---|
| dS | 1 | 0 |
| Q | k_tiles | 0 |
| dK | 0 | 1 |

(q_tiles = ceil(M / block_m), k_tiles = ceil(N / block_n), group = H / G. A causal mask saves nothing: P is 0 where it
hides a key.)

Source: Dao et al., FlashAttention (2022), appendix B: standard attention, backward pass.
"""

from ...device.device import Device
from ...integers import cdiv
from ...launch.outline import outlined_launch
from ...launch.program import Launch, Tensor
from ...problems.attention_backward import AttentionBackwardProblem
from ..config import Config
from ..contract import Schedule
from ..coverage import PIPELINE, Coverage, listed
from ..options import BLOCK_M, BLOCK_N, NUM_STAGES, NUM_WARPS, declared, number, tiled
from ..tiles import LOG2_E, key_tensor, product_constants, query_tensor, score_tensor, statistic_tensor
from .launches import delta_launch, delta_tensor, key_gradient, output_gradient

RECOMPUTED = number(
    "recomputed", "Whether P is made again from Q, K and LSE; 0: the forward pass has kept it.", (0, 1), "0 or 1",
    title="recomp.",
)  # fmt: skip


def launches(problem: AttentionBackwardProblem, config: Config, device: Device) -> tuple[Launch, ...]:
    """The six launches, or seven where P is made again."""
    p = score_tensor(problem, "P", "scratch" if config.recomputed else "input")
    dp, ds = score_tensor(problem, "dP"), score_tensor(problem, "dS")
    q, k, do, delta = query_tensor(problem), key_tensor(problem, "K"), output_gradient(problem), delta_tensor(problem)
    dq, dk, dv = query_tensor(problem, "dQ", "output"), key_gradient(problem, "dK"), key_gradient(problem, "dV")
    slabs, kv_slabs = problem.batch * problem.heads, problem.batch * problem.kv_heads
    q_tiles, k_tiles = cdiv(problem.seqlen_q, config.block_m), cdiv(problem.seqlen_k, config.block_n)

    def launch(name: str, ctas: int, *tensors: Tensor, causal: bool | None = None, **arguments: int | float) -> Launch:
        constants: dict[str, int | bool] = product_constants(problem, config.block_m, config.block_n)
        lengths = {"seqlen_q": problem.seqlen_q, "seqlen_k": problem.seqlen_k, "pitch": p.pitch_elements}
        return outlined_launch(
            name,
            (ctas, 1, 1),
            tensors,
            num_warps=config.num_warps,
            num_stages=config.num_stages,
            dtype=problem.dtype,
            constants=constants if causal is None else constants | {"causal": causal},
            arguments=lengths | arguments,
        )

    again = launch(
        "probabilities", slabs * q_tiles * k_tiles, q, k, statistic_tensor(problem, "LSE", "input"), p,
        scale_log2=LOG2_E / problem.head_dim**0.5, causal=problem.causal,
    )  # fmt: skip
    return (
        delta_launch("delta", problem),
        *((again,) if config.recomputed else ()),
        launch("value_gradients", kv_slabs * k_tiles, p, do, dv),
        launch("grad_probabilities", slabs * q_tiles * k_tiles, do, key_tensor(problem, "V"), dp),
        launch("grad_scores", slabs * q_tiles * k_tiles, p, dp, delta, ds, scale=problem.head_dim**-0.5),
        launch("naive_query_gradients", slabs * q_tiles, ds, k, dq),
        launch("naive_key_gradients", kv_slabs * k_tiles, ds, q, dk),
    )


def supports(problem: AttentionBackwardProblem) -> str | None:
    """P, dP and dS in the working dtype need 16 bits or more."""
    return "fp8 is too coarse for gradients: try fp16 or bf16" if problem.dtype == "fp8" else None


SCHEDULE = Schedule(
    name="naive_backward",
    summary="a kernel for every product; P, dP and dS go through device memory",
    source="Dao et al. 2022, FlashAttention, appendix B",
    problem=AttentionBackwardProblem,
    options=declared(
        tiled(BLOCK_M, 128, 64, 128),
        tiled(BLOCK_N, 128, 64, 128),
        tiled(NUM_WARPS, 8, 4, 8),
        tiled(NUM_STAGES, 3),
        RECOMPUTED,
    ),
    launches=launches,
    supports=supports,
    reads=("causal",),
    baseline=True,
    outlined=True,
    coverage=Coverage(points=(*PIPELINE, listed("middle", recomputed=1))),
)
