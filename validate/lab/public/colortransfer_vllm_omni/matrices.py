"""Graphs of atoms, of parity checks and of experts: gathers, turns and scatters along edges; numbers of four bits."""

import torch
from launching import Body, case
from libraries import megatron, plain, tridec
from made import fp32, given, int8, permuted, seeded


@case("fairchem.turned_edges", "graph")
def turned_edges(device: str) -> Body:
    op, nodes, edges, width = plain("fairchem.core.models.uma.triton.kernels"), 1000, 24000, 128
    x, out, kept = fp32(device, nodes, 9, width), *(fp32(device, edges, 9, 2 * width) for _ in range(2))
    turns, few, dturns = fp32(device, edges, 81), fp32(device, edges, 35), fp32(device, edges, 81)
    ends = torch.stack([seeded(nodes, edges, seed=711), torch.arange(edges) // 24])
    ends = given(device, ends)
    zero, one, two = (fp32(device, edges, count * width) for count in (3, 4, 2))
    dy, kept_one = (fp32(device, edges, 9, width) for _ in range(2))
    total = torch.zeros(nodes, 9, width, device=device)
    options = {"GRID_E_STRIDE": 2048, "num_warps": 1}
    return lambda: (
        op.node_to_edge_wigner_permute_kernel[(2048, 1)](
            x, ends, turns, out, kept, edges, width, *x.stride(), edges, *out.stride(), *kept.stride(), BLOCK_C=128,
            **options,
        ),
        op.permute_wigner_inv_edge_to_node_bwd_dw_kernel[(2048,)](dy, kept_one, dturns, edges, width, **options),
        op.wigner_inv_conv2_scatter_fwd_kernel[(edges,)](
            zero, one, two, few, ends[1], total, edges, width, BLOCK_C=width, GRID_E_STRIDE=131072, num_warps=1
        ),
    )  # fmt: skip


@case("tridec.belief_propagation", "graph")
def belief_propagation(device: str) -> Body:
    op, checks, bits, shots = tridec("backends.bp_triton"), 2000, 4000, 1024
    mu, nu = (fp32(device, 16000, shots) for _ in range(2))
    sign, prior, after = fp32(device, checks, shots), fp32(device, bits), fp32(device, bits, shots)
    of_checks = given(device, torch.arange(16000, dtype=torch.int32).reshape(checks, 8))
    of_bits = given(device, permuted(16000, bits, 4, seed=712))
    return lambda: (
        op._check_update_kernel[(4 * checks,)](
            mu, nu, sign, of_checks, shots, 16000, checks, 0.625, MAXDEG_C=8, BLOCK_S=256, INF=1e30
        ),
        op._bit_update_kernel[(4 * bits,)](nu, mu, after, prior, of_bits, shots, 16000, bits, MAXDEG_B=4, BLOCK_S=256),
    )


@case("megatron.multihot", "experts")
def multihot(device: str) -> Body:
    op, tokens, experts = megatron("fusions.fused_indices_converter"), 65536, 64
    chosen = seeded(experts // 8, tokens, 8, seed=713) * 8 + torch.arange(8)
    chosen, chance, spread = given(device, chosen), fp32(device, tokens, 8), fp32(device, tokens, experts)
    hot = torch.empty(tokens, experts, device=device, dtype=torch.bool)
    place = torch.empty(tokens, experts, device=device, dtype=torch.int32)
    return lambda: op._indices_to_multihot_kernel[(tokens,)](
        chosen, chance, hot, spread, place, experts, experts, 8, 8, BLOCK_SIZE=32, num_warps=1
    )


@case("fbgemm.mx4", "quantise")
def mx4(device: str) -> Body:
    op, rows, columns = plain("fbgemm_gpu.triton.quantize")._kernel_quantize_mx4, 8192, 4096
    x, out = fp32(device, rows, columns), int8(device, rows * columns // 32 * 17).view(torch.uint8)
    options = {"GROUP_SIZE": 32, "EBITS": 2, "MBITS": 1, "ROUNDING_MODE": 2, "STOCHASTIC_CASTING": False}
    options |= {"FP4_EXP_BIAS": 1, "GROUP_LOAD": 64, "USE_INT64": False}
    return lambda: op[(5793,)](x, out, None, rows, columns, 128, 182, 0, **options)
