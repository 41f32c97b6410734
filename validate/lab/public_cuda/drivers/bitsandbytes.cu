// bitsandbytes: weights of Llama-3 8B (4096 x 14336), blocks of 64 in NF4; Adam with states of 8 bits
#include "given.h"
#include "kernels.cu"
#include "ops.cu"
#undef ERR_NOT_IMPLEMENTED
#include "gemm_4bit_simt.cuh"
int main() {
  volatile char room[65536]; room[0] = 0;
  const long n = 4096l * 14336;
  using T = __nv_bfloat16;
  label("bnb_quantize_nf4");
  quantizeBlockwise<T, 0, NF4>(nullptr, tensor<T>("a", "bf16", {n}), tensor<float>("absmax", "fp32", {n / 64}), tensor<unsigned char>("out", "uint8", {n / 2}),
    nullptr, 0, 64, n);
  label("bnb_dequantize_nf4");
  dequantizeBlockwise<T, NF4>(nullptr, tensor<unsigned char>("a", "uint8", {n / 2}, "random:256*29360128"), tensor<float>("absmax", "fp32", {n / 64}), tensor<T>("out", "bf16", {n}), 64, n, 0);
  label("bnb_int8_vector_quant");
  int8VectorQuant(tensor<half>("a", "fp16", {4096, 4096}), tensor<int8_t>("out", "int8", {4096, 4096}), tensor<float>("stats", "fp32", {4096}), 0.f, 4096, 4096, 0);
  label("bnb_gemv_nf4");
  gemm_4bit_inference_naive<T, 16>(14336, 1, 4096, tensor<T>("x", "bf16", {4096}), tensor<unsigned char>("w", "uint8", {n / 2}), tensor<float>("absmax", "fp32", {n / 64}),
    tensor<float>("code", "fp32", {16}), tensor<T>("out", "bf16", {14336}), 14336, 2048, 14336, 64, 0);
  label("bnb_adam8bit");
  optimizerStatic8bitBlockwise<T, ADAM>(tensor<T>("p", "bf16", {n}), tensor<T>("g", "bf16", {n}), tensor<unsigned char>("state1", "uint8", {n}, "random:256*58720256"),
    tensor<unsigned char>("state2", "uint8", {n}, "random:256*58720256"), 0.9f, 0.999f, 0.f, 0.f, 1e-8f, 10, 1e-4f, tensor<float>("quantiles1", "fp32", {256}), tensor<float>("quantiles2", "fp32", {256}),
    tensor<float>("absmax1", "fp32", {n / 256}), tensor<float>("absmax2", "fp32", {n / 256}), 0.01f, 1.f, false, n);
}
