// vLLM 0.11.0: KV cache, fp8 per token, paged attention v1; Llama-3 8B in bf16
#include "torch_shim.h"
#include "cache_part.cuh" // of cache_kernels.cu, what reshape_and_cache_flash needs
using at::tensor_of;
constexpr auto bf16 = at::ScalarType::BFloat16;
int main() {
  volatile char room[65536]; room[0] = 0;
  label("vllm_reshape_and_cache_flash");
  auto key = tensor_of("key", bf16, {4096, 8, 128}), value = tensor_of("value", bf16, {4096, 8, 128});
  auto key_cache = tensor_of("key_cache", bf16, {1024, 16, 8, 128}), value_cache = tensor_of("value_cache", bf16, {1024, 16, 8, 128});
  auto slots = tensor_of("slots", at::kLong, {4096}, "arange:4096"), k_scale = tensor_of("k_scale", at::kFloat, {1}), v_scale = tensor_of("v_scale", at::kFloat, {1});
  reshape_and_cache_flash(key, value, key_cache, value_cache, slots, "auto", k_scale, v_scale);
}
