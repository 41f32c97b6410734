"""Losses and rewards, forward and backward."""

import torch
from launching import Body, case
from libraries import axolotl, plain
from made import bf16, fp32, given, seeded


@case("sam3.focal_loss", "loss")
def focal_loss(device: str) -> Body:
    op = plain("sam3.train.loss.sigmoid_focal_loss")
    size = 64 * 288 * 288
    x, dx, dy = (fp32(device, size) for _ in range(3))
    target, total = fp32(device, size).abs().clamp(0, 1), torch.zeros(32, device=device)
    many = (size // 256,)
    return lambda: (
        op.sigmoid_focal_loss_fwd_kernel_reduce[many](x, target, total, 0.25, 2, size, 256, 32),
        op.sigmoid_focal_loss_bwd_kernel[many](x, target, dx, dy, 0.25, 2, size, 256),
    )


@case("axolotl.feature_rewards", "loss")
def feature_rewards(device: str) -> Body:
    op = axolotl("core.trainers.ebft.kernels")
    logits, labels = bf16(device, 4096, 32000), given(device, seeded(32000, 4096, seed=701))
    logps, sets, spread = fp32(device, 4096), bf16(device, 512, 8, 4096), fp32(device, 512, 8)
    return lambda: (
        op._fused_log_softmax_gather_kernel[(4096,)](logits, labels, logps, V=32000, BLOCK_V=4096),
        op._fused_diversity_kernel[(512, 8)](sets, spread, N=8, D=4096, BLOCK_D=1024),
    )
