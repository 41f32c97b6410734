// FlashAttention-2: Llama-3 8B in bf16, heads of 128; prefill of 4096 tokens, decode of 8 sequences of 8192 over a KV cache
#include "torch_shim.h"
#include "flash_fwd_launch_template.h"
using T = cutlass::bfloat16_t;
// what its dispatch chooses of the templates for these shapes: tiles of 128 x 64 and 64 x 128, even, no dropout, bias or window
using Prefill = Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, T>;
using Decode = Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, T>;
static FLASH_NAMESPACE::Flash_fwd_params params_of(long b, long sq, long sk, long h, long hk, bool causal) {
  FLASH_NAMESPACE::Flash_fwd_params p = {};
  const long d = 128;
  p.is_bf16 = true;
  p.q_ptr = given("q", "bf16", {b, sq, h, d}), p.k_ptr = given("k", "bf16", {b, sk, hk, d}), p.v_ptr = given("v", "bf16", {b, sk, hk, d}), p.o_ptr = given("o", "bf16", {b, sq, h, d});
  p.q_row_stride = p.o_row_stride = h * d, p.k_row_stride = p.v_row_stride = hk * d, p.q_head_stride = p.k_head_stride = p.v_head_stride = p.o_head_stride = d;
  p.q_batch_stride = p.o_batch_stride = sq * h * d, p.k_batch_stride = p.v_batch_stride = sk * hk * d;
  p.softmax_lse_ptr = given("lse", "fp32", {b, h, sq});
  p.b = b, p.h = h, p.h_k = hk, p.h_h_k_ratio = h / hk, p.seqlen_q = sq, p.seqlen_k = sk, p.seqlen_q_rounded = (sq + 127) / 128 * 128, p.seqlen_k_rounded = (sk + 127) / 128 * 128;
  p.d = p.d_rounded = d, p.scale_softmax = 0.0883883f, p.scale_softmax_log2 = 0.0883883f * 1.442695f;
  p.p_dropout = 1.f, p.p_dropout_in_uint8_t = 255, p.rp_dropout = 1.f, p.scale_softmax_rp_dropout = p.scale_softmax;
  p.is_causal = causal, p.window_size_left = -1, p.window_size_right = causal ? 0 : -1, p.is_seqlens_k_cumulative = true, p.num_splits = 1;
  return p;
}
template <typename P> static void prefill(const P &p) {
  FLASH_NAMESPACE::flash_fwd_kernel<Prefill, false, true, false, false, true, true, false, false>
    <<<dim3((p.seqlen_q + 127) / 128, p.b, p.h), Prefill::kNThreads, Prefill::kSmemSize>>>(p);
}
int main() {
  volatile char room[65536]; room[0] = 0;
  label("flash2_fwd_causal");
  prefill(params_of(2, 4096, 4096, 32, 8, true));
  label("flash2_fwd_short");
  prefill(params_of(16, 512, 512, 32, 8, true));
  // as flash_attn_with_kvcache: the 4 heads of a group are rows; 64 blocks of 128 keys, 4 splits by its heuristic for 132 SMs
  label("flash2_splitkv_decode");
  auto p = params_of(8, 4, 8192, 8, 8, false);
  p.num_splits = 4;
  p.softmax_lseaccum_ptr = given("lse_accum", "fp32", {4, 8, 8, 4}), p.oaccum_ptr = given("o_accum", "fp32", {4, 8, 8, 4, 128});
  FLASH_NAMESPACE::flash_fwd_splitkv_kernel<Decode, false, false, false, false, true, false, true, false><<<dim3(1, 4, 64), Decode::kNThreads, Decode::kSmemSize>>>(p);
  FLASH_NAMESPACE::flash_fwd_splitkv_combine_kernel<Decode, 4, 2, true><<<64, Decode::kNThreads>>>(p);
}
