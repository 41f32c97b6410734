// causal-conv1d: the convolution of mamba-2.8b (5120 channels, width 4) in bf16; its files without explicit instantiation
#include "torch_shim.h"
#include "fwd_alone.cuh"
#define Causal_conv1d_update_kernel_traits_here
#include "update_alone.cuh"
int main() {
  volatile char room[65536]; room[0] = 0;
  const long dim = 5120;
  for (int i = 0; i < 3; ++i) {
    const long batch = i < 2 ? 2 : 128, length = i < 2 ? 2048 : 1;
    const bool last = i == 1;
    ConvParamsBase p;
    label(i == 0 ? "conv1d_fwd" : i == 1 ? "conv1d_channellast_fwd" : "conv1d_update");
    memset(&p, 0, sizeof p);
    p.batch = batch, p.dim = dim, p.seqlen = length, p.width = 4, p.silu_activation = true;
    p.x_batch_stride = p.out_batch_stride = dim * length, p.x_c_stride = p.out_c_stride = last ? 1 : length, p.x_l_stride = p.out_l_stride = last ? dim : 1;
    p.weight_c_stride = 4, p.weight_width_stride = 1;
    p.x_ptr = given("x", "bf16", {batch, dim, length}), p.weight_ptr = given("weight", "bf16", {dim, 4}), p.bias_ptr = given("bias", "bf16", {dim}), p.out_ptr = given("out", "bf16", {batch, dim, length});
    if (i == 0) causal_conv1d_fwd_cuda<at::BFloat16, at::BFloat16>(p, 0);
    if (i == 1) causal_conv1d_channellast_fwd_cuda<at::BFloat16, at::BFloat16>(p, 0);
    if (i == 2) {
      p.conv_state_len = 3, p.conv_state_ptr = given("state", "bf16", {batch, dim, 3}), p.conv_state_batch_stride = dim * 3, p.conv_state_c_stride = 3, p.conv_state_l_stride = 1;
      causal_conv1d_update_cuda<at::BFloat16, at::BFloat16>(p, 0);
    }
  }
}
