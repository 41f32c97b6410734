"""Short convolutions and filters of states; spiking neurons, forward and backward."""

import torch
from launching import Body, case
from libraries import plain
from made import fp32


@case("vortex.short_convolution", "convolution")
def short_convolution(device: str) -> Body:
    op = plain("vortex.ops.hcs_interface")._hcs_depthwise_conv_kernel
    u, w, z = fp32(device, 1, 4096, 8192), fp32(device, 4096, 1, 7), fp32(device, 1, 4096, 8192)
    grid = plain("vortex.ops.triton_common").bdl_grid_3d(1, 4096, 8192)
    return lambda: op[grid](u, w, z, 4096, 8192, *u.stride(), w.stride(0), w.stride(2), FIR_LEN=7)


@case("vortex.filters", "convolution")
def filters(device: str) -> Body:
    op = plain("vortex.ops.hcl_interface")._hcl_compute_filter_kernel
    residues, poles, times, out = (
        *(fp32(device, 4096, 16) for _ in range(2)),
        fp32(device, 8192),
        fp32(device, 4096, 8192),
    )
    grid = plain("vortex.ops.triton_common").bdl_grid_2d(4096, 8192)
    return lambda: op[grid](residues, poles, times, out, 4096, 8192, *residues.stride(), *out.stride(), 16)


@case("tether.spiking_neurons", "recurrent")
def spiking_neurons(device: str) -> Body:
    op, neurons, steps = plain("tether.kernels.lif"), 1 << 18, 64
    x, spikes, states, do, dx = (fp32(device, steps, neurons) for _ in range(5))
    packed = torch.zeros(2, neurons, device=device, dtype=torch.int32)
    begin, end = fp32(device, neurons), fp32(device, neurons)
    numbers = [torch.full((1,), value, device=device) for value in (0.9, 1.0, 2.0, 0.0, 0.0, 0.0)]
    return lambda: (
        op.lif_fwd_kernel[(neurons // 1024,)](
            x, begin, spikes, packed, states, end, neurons, steps, 0.9, 1.0, BLOCK_SIZE=1024
        ),
        op.lif_bwd_kernel[(neurons // 1024,)](
            do, packed, states, dx, end, begin, neurons, steps, *numbers, 0, BLOCK_SIZE=1024
        ),
    )
