// ExLlamaV2: Llama-3 8B in fp16
#include "torch_shim.h"
class Graph;
#include "cuda/rms_norm.cu"
#undef NUM_WARPS
#undef WARP_SIZE
#undef BLOCK_SIZE
#undef NUM_THREADS
#include "cuda/rope.cu"
#include "cuda/cache.cu"
int main() {
  volatile char room[65536]; room[0] = 0;
  label("exllama_rms_norm");
  rms_norm_cuda(0, tensor<half>("x", "fp16", {2048, 4096}), tensor<half>("w", "fp16", {4096}), tensor<half>("y", "fp16", {2048, 4096}), 1e-5f, 2048, 4096, false, false, false, nullptr, 0);
  label("exllama_rope");
  rope_cuda(0, tensor<half>("x", "fp16", {2048, 32, 128}), tensor<half>("sin", "fp16", {8192, 128}), tensor<half>("cos", "fp16", {8192, 128}), 1, 2048 * 32, 128, 32, 0, nullptr, true, 128);
  label("exllama_cache_q4");
  array_fp16_to_q_kv_paged_cuda(0, tensor<half>("k", "fp16", {32, 256, 1024}), tensor<unsigned char>("k_out", "uint8", {32, 256, 512}), tensor<half>("k_scales", "fp16", {32, 256, 32}),
    tensor<half>("v", "fp16", {32, 256, 1024}), tensor<unsigned char>("v_out", "uint8", {32, 256, 512}), tensor<half>("v_scales", "fp16", {32, 256, 32}), 4, 1024, 8,
    tensor<int>("seqlens", "int32", {4}, "fill:0"), tensor<int>("block_table", "int32", {32}, "arange:32"), 256, 2048, 4);
}
