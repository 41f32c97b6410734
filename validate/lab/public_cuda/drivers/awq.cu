// AWQ (llm-awq): weights of 4 bits, Llama-3 8B (4096 -> 14336), groups of 128
#include "torch_shim.h"
#include <bits/stdc++.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
namespace gemv {
#include "quantization_new/gemv/gemv_cuda.cu"
}
#include "layernorm/layernorm.cu"
using at::tensor_of;
int main() {
  volatile char room[65536]; room[0] = 0;
  const long k = 4096, n = 14336;
  const auto fp16 = at::ScalarType::Half;
  for (int m : {1, 4}) {
    label(m == 1 ? "awq_gemv_1" : "awq_gemv_4");
    gemv::gemv_forward_cuda_new(tensor_of("x", fp16, {m, k}), tensor_of("w", at::kInt, {n / 4, k / 2}), tensor_of("scales", fp16, {k / 128, n}), tensor_of("zeros", fp16, {k / 128, n}), m, n, k, 128);
  }
  label("awq_layernorm");
  layernorm_forward_cuda(tensor_of("x", fp16, {1, 4096, 4096}), tensor_of("gamma", fp16, {4096}), tensor_of("out", fp16, {1, 4096, 4096}), 1e-5f);
}
