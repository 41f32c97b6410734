// apex: layer norm of 16384 x 4096, softmax of 32 heads over 2048, Adam over 4 tensors of 64 M
#include "torch_shim.h"
#include <c10/macros/Macros.h>
namespace at { template <typename T, bool> struct AccumulateType { using type = float; }; template <typename T, bool b> using acc_type = float;
namespace cuda { inline int warp_size() { return 32; } } }
template <typename T> __device__ __forceinline__ T WARP_SHFL_XOR(T value, int mask, int width = 32, unsigned m = 0xffffffffu) { return __shfl_xor_sync(m, value, mask, width); }
template <typename T> __device__ __forceinline__ T WARP_SHFL(T value, int lane, int width = 32, unsigned m = 0xffffffffu) { return __shfl_sync(m, value, lane, width); }
template <typename T> __device__ __forceinline__ T WARP_SHFL_DOWN(T value, unsigned delta, int width = 32, unsigned m = 0xffffffffu) { return __shfl_down_sync(m, value, delta, width); }
#include "layer_norm_cuda_kernel.cu"
namespace upper {
#include "scaled_upper_triang_masked_softmax.h"
}
using at::BFloat16;
int main() {
  volatile char room[65536]; room[0] = 0;
  label("apex_layer_norm");
  HostApplyLayerNorm<BFloat16, float, BFloat16>(tensor<BFloat16>("out", "bf16", {16384, 4096}), tensor<float>("mean", "fp32", {16384}), tensor<float>("invvar", "fp32", {16384}),
    tensor<BFloat16>("x", "bf16", {16384, 4096}), 16384, 4096, 1e-5, tensor<BFloat16>("gamma", "bf16", {4096}), tensor<BFloat16>("beta", "bf16", {4096}));
  label("apex_rms_norm");
  HostApplyRMSNorm<BFloat16, float, BFloat16>(tensor<BFloat16>("out", "bf16", {16384, 4096}), tensor<float>("invvar", "fp32", {16384}), tensor<BFloat16>("x", "bf16", {16384, 4096}),
    16384, 4096, 1e-5, tensor<BFloat16>("gamma", "bf16", {4096}));
  label("apex_causal_softmax");
  upper::dispatch_scaled_upper_triang_masked_softmax_forward<BFloat16, BFloat16, float>(tensor<BFloat16>("out", "bf16", {32, 2048, 2048}), tensor<BFloat16>("x", "bf16", {32, 2048, 2048}), 0.125f, 2048, 2048, 32);
}
