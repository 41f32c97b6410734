"""Norms, activations, softmax, losses, rotary embeddings, optimizers, of further libraries."""

from launching import Body, case
from libraries import fla, sglang_kernels
from made import bf16, fp32


@case("fla.logsumexp", "reduction")
def fla_logsumexp(device: str) -> Body:
    op = fla("ops.utils.logsumexp")
    x = bf16(device, 2048, 128256)
    return lambda: op.logsumexp_fwd(x)


@case("fla.powglu", "activation")
def fla_powglu(device: str) -> Body:
    op = fla("modules.activations.ops")
    x, y, g = bf16(device, 8192, 11008), bf16(device, 8192, 11008), bf16(device, 8192, 11008)
    return lambda: op.powglu_fwdbwd(x, y, g)


@case("fla.kda_gate", "elementwise")
def fla_kda_gate(device: str) -> Body:
    op = fla("ops.kda.gate")
    g, log, bias, dy = (
        bf16(device, 2, 8192, 32, 128),
        fp32(device, 32),
        fp32(device, 4096),
        fp32(device, 2, 8192, 32, 128),
    )
    return lambda: (op.kda_gate_fwd(g, log, bias), op.kda_gate_bwd(g, log, bias, dy))


@case("sglang.gemma_dual_rms_norm", "norm")
def sglang_gemma_dual(device: str) -> Body:
    op = sglang_kernels("layernorm.gemma4_fused_ops").gemma_dual_rmsnorm_residual_scalar
    x, y, r = bf16(device, 8192, 2816), bf16(device, 8192, 2816), bf16(device, 8192, 2816)
    a, b, c, s = bf16(device, 2816), bf16(device, 2816), bf16(device, 2816), bf16(device, 1)
    return lambda: op(x, a, y, b, c, r, s)


@case("sglang.ltx2_rotary", "rotary")
def sglang_ltx2(device: str) -> Body:
    op = sglang_kernels("diffusion.rope.ltx2_rotary_triton").apply_ltx2_split_rotary_emb
    x, cos, sin = bf16(device, 1, 16384, 4096), bf16(device, 1, 32, 16384, 64), bf16(device, 1, 32, 16384, 64)
    return lambda: op(x, cos, sin)
