// FlashInfer: Llama-3 8B in bf16; decode of 32 sequences of 2048 tokens in pages of 16, prefill of 4096 tokens
#include "given.h"
#include <flashinfer/norm.cuh>
#include <flashinfer/pos_enc.cuh>
#include <flashinfer/activation.cuh>
#include <flashinfer/sampling.cuh>
#include <flashinfer/attention/cascade.cuh>
#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/variants.cuh>
using namespace flashinfer;
using T = __nv_bfloat16;
__device__ __forceinline__ float silu(const float &x) { return x / (1.0f + __expf(-x)); }
int main() {
  volatile char room[65536]; room[0] = 0;
  label("flashinfer_fused_add_rmsnorm");
  norm::FusedAddRMSNorm<T>(tensor<T>("x", "bf16", {4096, 4096}), tensor<T>("residual", "bf16", {4096, 4096}), tensor<T>("w", "bf16", {4096}), 4096, 4096, 4096, 4096);
  label("flashinfer_silu_and_mul");
  activation::act_and_mul_kernel<T, silu><<<4096, 1024>>>(tensor<T>("out", "bf16", {4096, 14336}), tensor<T>("x", "bf16", {4096, 28672}), 14336);
  label("flashinfer_sampling_from_prob");
  sampling::SamplingFromProb<float, int>(tensor<float>("probs", "fp32", {64, 128256}), tensor<int>("out", "int32", {64}), tensor<bool>("valid", "bool", {64}), nullptr, 64, 128256, true, nullptr, 1, nullptr, 2);
  label("flashinfer_merge_states");
  MergeStates<T, T>(tensor<T>("v", "bf16", {4096, 2, 32, 128}), tensor<float>("s", "fp32", {4096, 2, 32}), tensor<T>("merged", "bf16", {4096, 32, 128}),
    tensor<float>("s_merged", "fp32", {4096, 32}), 2, 4096, 32, 128);
  {
    label("flashinfer_batch_decode_paged");
    paged_kv_t<T, int> kv(8, 16, 128, 32, QKVLayout::kNHD, tensor<T>("k", "bf16", {4096, 16, 8, 128}), tensor<T>("v", "bf16", {4096, 16, 8, 128}),
      tensor<int>("indices", "int32", {4096}, "permutation:4096"), tensor<int>("indptr", "int32", {33}, "arange:33*128"), tensor<int>("last_page_len", "int32", {32}, "fill:16"));
    BatchDecodeParams<T, T, T, int> p(tensor<T>("q", "bf16", {32, 32, 128}), nullptr, kv, tensor<T>("o", "bf16", {32, 32, 128}), nullptr, nullptr, 32, 4096, 128, -1, 0.f, 0.088388f, 1.f, 1e4f);
    p.padded_batch_size = 32;
    p.request_indices = tensor<int>("request_indices", "int32", {32}, "arange:32");
    p.kv_tile_indices = tensor<int>("kv_tile_indices", "int32", {32}, "fill:0");
    p.o_indptr = tensor<int>("o_indptr", "int32", {33}, "arange:33");
    p.kv_chunk_size_ptr = tensor<int>("kv_chunk_size", "int32", {1}, "fill:2048");
    BatchDecodeWithPagedKVCacheDispatched<128, PosEncodingMode::kNone, DefaultAttention<false, false, false, false>>(p, (T *)nullptr, (float *)nullptr, false, 0);
  }
}
