// ggml (llama.cpp): Llama-3 8B, one token and a prompt of 512
#include "given.h"
#include "norm.cu"
#include "quantize.cu"
#include "rope.cu"
#include "softmax.cu"
#include "unary.cu"
#include "mmvq.cu"
const ggml_cuda_device_info &ggml_cuda_info() {
  static ggml_cuda_device_info info;
  info.device_count = 1;
  info.devices[0].cc = 900, info.devices[0].nsm = 132, info.devices[0].smpb = 49152, info.devices[0].smpbo = 232448, info.devices[0].warp_size = 32;
  return info;
}
int ggml_cuda_get_device() { return 0; }
void ggml_cuda_set_device(int) {}
int main() {
  volatile char room[65536]; room[0] = 0;
  {
    label("ggml_rms_norm");
    rms_norm_f32_cuda(tensor<float>("x", "fp32", {512, 4096}), tensor<float>("dst", "fp32", {512, 4096}), 4096, 512, 1, 1, 4096, 4096 * 512, 4096 * 512, 1e-5f, 0);
  }
  {
    label("ggml_quantize_q8_1");
    quantize_row_q8_1_cuda(tensor<float>("x", "fp32", {512, 14336}), nullptr, tensor<char>("y", "uint8", {512, 14336 / 32, 36}), GGML_TYPE_Q4_K, 14336, 14336, 14336 * 512, 14336 * 512, 14336, 512, 1, 1, 0);
  }
  {
    label("ggml_rope_neox");
    rope_corr_dims dims = {{0.f, 0.f}};
    rope_neox_cuda<true, float, float>(tensor<float>("x", "fp32", {512, 32, 128}), tensor<float>("dst", "fp32", {512, 32, 128}), 128, 32, 512, 128, 4096, 4096 * 512, 128, 4096, 4096 * 512, 128, 0, 512 * 32,
      tensor<int>("pos", "int32", {512}, "arange:512"), 1.f, 500000.f, 0.f, 1.f, dims, nullptr, nullptr, 0, false, 0);
  }
  {
    label("ggml_swiglu");
    unary_gated_cuda<op_silu>(tensor<float>("x", "fp32", {512, 28672}), tensor<float>("g", "fp32", {512, 28672}), tensor<float>("dst", "fp32", {512, 14336}), 512l * 14336, 14336, 28672, 28672, 0);
  }
  ggml_cuda_mm_fusion_args_device none{};
  {
    label("ggml_mmvq_q4_K");
    mul_mat_vec_q_switch_ncols_dst<GGML_TYPE_Q4_K>(tensor<char>("w", "uint8", {14336, 4096 / 256, 144}), tensor<char>("y", "uint8", {4096 / 32, 36}), nullptr, none, tensor<float>("dst", "fp32", {14336}),
      4096, 14336, 1, 4096 / 256, 4096 / 32, 14336, 1, 1, 1, 14336 * 16, 128, 14336, 1, 1, 14336 * 16, 128, 14336, 0, 0);
  }
  {
    label("ggml_mmvq_q8_0");
    mul_mat_vec_q_switch_ncols_dst<GGML_TYPE_Q8_0>(tensor<char>("w", "uint8", {14336, 4096 / 32, 34}), tensor<char>("y", "uint8", {4096 / 32, 36}), nullptr, none, tensor<float>("dst", "fp32", {14336}),
      4096, 14336, 1, 4096 / 32, 4096 / 32, 14336, 1, 1, 1, 14336 * 128, 128, 14336, 1, 1, 14336 * 128, 128, 14336, 0, 0);
  }
}
