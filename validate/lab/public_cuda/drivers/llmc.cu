// llm.c: training of GPT-2 124M in bf16, 16 sequences of 1024 tokens
#define ENABLE_BF16
#include "given.h"
#include <cassert>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#define cudaMemAdvise(...) cudaSuccess // of another signature in CUDA 13, and not called here
#include "llmc/cuda_common.h"
#include "llmc/cuda_utils.cuh"
#include "llmc/encoder.cuh"
#include "llmc/layernorm.cuh"
#include "llmc/fused_classifier.cuh"
#include "llmc/adamw.cuh"
template <typename... T> void matmul_cublaslt(T...) {} // not called here
#include "llmc/attention.cuh"
#include "llmc/gelu.cuh"
cudaDeviceProp deviceProp;
int main() {
  volatile char room[65536]; room[0] = 0;
  cudaGetDeviceProperties(&deviceProp, 0);
  const long B = 16, T = 1024, C = 768, V = 50257, P = 50304, N = B * T;
  using X = floatX;
  label("llmc_fused_residual");
  fused_residual_forward5(tensor<X>("residual", "bf16", {N, C}), tensor<X>("normed", "bf16", {N, C}), tensor<float>("mean", "fp32", {N}),
    tensor<float>("rstd", "fp32", {N}), tensor<X>("inp1", "bf16", {N, C}), tensor<X>("inp2", "bf16", {N, C}), tensor<X>("w", "bf16", {C}),
    tensor<X>("b", "bf16", {C}), N, C, 0);
  label("llmc_fused_classifier");
  fused_classifier(tensor<X>("logits", "bf16", {N, P}), tensor<float>("losses", "fp32", {N}), 1.f / N, tensor<int>("targets", "int32", {N}, "random:50257*16384"),
    B, T, V, P, std::bool_constant<true>{}, 0);
  label("llmc_adamw");
  const long n = 124475904;
  adamw_update(tensor<X>("params", "bf16", {n}), tensor<float>("master", "fp32", {n}), tensor<X>("grads", "bf16", {n}), tensor<float>("m", "fp32", {n}),
    tensor<float>("v", "fp32", {n}), n, 0, 0, 0, 1, 6e-4f, 0.9f, 0.95f, 10, 1e-8f, 0.1f, 1.f, 1337u, 0);
  label("llmc_softmax");
  softmax_forward_kernel5<<<CEIL_DIV(16 * 12 * 1024 * 32, 256), 256>>>(tensor<X>("att", "bf16", {B, 12, T, T}), 0.125f, tensor<X>("preatt", "bf16", {B, 12, T, T}), B * 12, T);
  label("llmc_layernorm_backward");
  layernorm_backward(tensor<X>("dinp", "bf16", {N, C}), tensor<X>("dweight", "bf16", {C}), tensor<X>("dbias", "bf16", {C}),
    tensor<float>("scratch", "fp32", {1 << 20}), tensor<X>("dout", "bf16", {N, C}), tensor<X>("inp", "bf16", {N, C}), tensor<X>("w", "bf16", {C}),
    tensor<float>("mean", "fp32", {N}), tensor<float>("rstd", "fp32", {N}), B, T, C, 0);
}
