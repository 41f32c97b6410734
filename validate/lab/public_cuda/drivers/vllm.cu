// vLLM 0.11.0: rows of Llama-3 8B in bf16, prefill of 4096 tokens and decode of 64
#include "torch_shim.h"
#include "layernorm_kernels.cu"
#undef LAUNCH_FUSED_ADD_RMS_NORM
#include "activation_kernels.cu"
#include "pos_encoding_kernels.cu"
using at::tensor_of;
constexpr auto bf16 = at::ScalarType::BFloat16;
int main() {
  volatile char room[65536]; room[0] = 0;
  {
    label("vllm_rms_norm");
    auto out = tensor_of("out", bf16, {4096, 4096}), x = tensor_of("x", bf16, {4096, 4096}), w = tensor_of("w", bf16, {4096});
    rms_norm(out, x, w, 1e-5);
  }
  {
    label("vllm_fused_add_rms_norm");
    auto x = tensor_of("x", bf16, {4096, 4096}), residual = tensor_of("residual", bf16, {4096, 4096}), w = tensor_of("w", bf16, {4096});
    fused_add_rms_norm(x, residual, w, 1e-5);
  }
  {
    label("vllm_silu_and_mul");
    auto out = tensor_of("out", bf16, {4096, 14336}), x = tensor_of("x", bf16, {4096, 28672});
    silu_and_mul(out, x);
  }
  {
    label("vllm_rotary_embedding");
    auto positions = tensor_of("positions", at::kLong, {4096}, "arange:4096");
    auto q = tensor_of("q", bf16, {4096, 4096}), k = tensor_of("k", bf16, {4096, 1024}), cache = tensor_of("cache", bf16, {8192, 128});
    rotary_embedding(positions, q, k, 128, cache, true);
  }
}
