// vLLM 0.11.0: paged attention v1 in bf16, 32 sequences of 1024 tokens in blocks of 16, Llama-3 8B
#define ENABLE_FP8
#include "torch_shim.h"
#include "attention/attention_kernels.cuh"
#include "quantization/fp8/common.cu"
using T = __nv_bfloat16;
int main() {
  volatile char room[65536]; room[0] = 0;
  label("vllm_paged_attention_v1");
  vllm::paged_attention_v1_kernel<uint16_t, uint16_t, 128, 16, 128, vllm::Fp8KVCacheDataType::kAuto, false><<<dim3(32, 32, 1), 128, 4096>>>(
    tensor<uint16_t>("out", "fp16", {32, 32, 128}), tensor<uint16_t>("q", "fp16", {32, 32, 128}), tensor<uint16_t>("k_cache", "fp16", {2048, 8, 16, 16, 8}), tensor<uint16_t>("v_cache", "fp16", {2048, 8, 128, 16}),
    8, 0.0883883f, tensor<int>("block_tables", "int32", {32, 64}, "permutation:2048"), tensor<int>("seq_lens", "int32", {32}, "fill:1024"), 64, nullptr, 4096, 16384, 2048,
    tensor<float>("k_scale", "fp32", {1}), tensor<float>("v_scale", "fp32", {1}), 0, 0, 0, 64, 0);
  label("vllm_fp8_per_token_quant");
  auto out = at::tensor_of("out", at::ScalarType::Float8_e4m3fn, {4096, 4096}), x = at::tensor_of("x", at::ScalarType::BFloat16, {4096, 4096}), scales = at::tensor_of("scales", at::kFloat, {4096, 1});
  dynamic_per_token_scaled_fp8_quant(out, x, scales, std::nullopt);
}
