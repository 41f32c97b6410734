// Mamba: selective scan of mamba-2.8b (5120 channels, 16 states) in bf16, 2048 tokens, and of 512 tokens
#include "torch_shim.h"
#include "selective_scan_fwd_kernel.cuh"
int main() {
  volatile char room[65536]; room[0] = 0;
  for (long length : {2048l, 512l}) {
    label(length == 2048 ? "mamba_scan_2048" : "mamba_scan_512");
    const long dim = 5120, states = 16, batch = 2;
    SSMParamsBase p;
    memset(&p, 0, sizeof p);
    p.batch = batch, p.dim = dim, p.seqlen = length, p.dstate = states, p.n_groups = 1, p.n_chunks = (length + 2047) / 2048, p.dim_ngroups_ratio = dim;
    p.delta_softplus = p.is_variable_B = p.is_variable_C = true;
    p.A_d_stride = states, p.A_dstate_stride = 1;
    p.B_batch_stride = p.C_batch_stride = p.B_group_stride = p.C_group_stride = states * length, p.B_dstate_stride = p.C_dstate_stride = length;
    p.u_batch_stride = p.delta_batch_stride = p.z_batch_stride = p.out_batch_stride = p.out_z_batch_stride = dim * length;
    p.u_d_stride = p.delta_d_stride = p.z_d_stride = p.out_d_stride = p.out_z_d_stride = length;
    p.A_ptr = given("A", "fp32", {dim, states}), p.B_ptr = given("B", "bf16", {batch, 1, states, length}), p.C_ptr = given("C", "bf16", {batch, 1, states, length});
    p.D_ptr = given("D", "fp32", {dim}), p.delta_bias_ptr = given("bias", "fp32", {dim});
    p.u_ptr = given("u", "bf16", {batch, dim, length}), p.delta_ptr = given("delta", "bf16", {batch, dim, length}), p.z_ptr = given("z", "bf16", {batch, dim, length});
    p.out_ptr = given("out", "bf16", {batch, dim, length}), p.out_z_ptr = given("out_z", "bf16", {batch, dim, length}), p.x_ptr = given("x", "fp32", {batch, dim, p.n_chunks, states * 2});
    selective_scan_fwd_cuda<at::BFloat16, float>(p, 0);
  }
}
