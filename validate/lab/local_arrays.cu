// Local arrays: what storing so many words of them, and loading so many, takes.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 local_arrays.cu -o local_arrays && ./local_arrays > local_arrays.ndjson
#include <cstdio>
#include <algorithm>
#include <cuda_runtime.h>
#include "check.cuh"
__device__ float sink;
template <int W, int L> __global__ void __launch_bounds__(128) local_words(int times, int zero) {
  volatile int a[8];
  int s = threadIdx.x;
  for (int t = 0; t < times; ++t) {
#pragma unroll
    for (int i = 0; i < W; ++i) a[i + zero] = s + t + i;
#pragma unroll
    for (int i = 0; i < L; ++i) s += a[(i + 3 + zero) & 7];
  }
  if (s == 123456789) sink = s;
}
template <int W, int L> void run(int ctas) {
  cudaEvent_t b, e; cudaEventCreate(&b); cudaEventCreate(&e);
  float best = 1e9, us;
  int times = 64;
  for (int r = 0; r < 4; ++r) {
    cudaEventRecord(b); local_words<W, L><<<ctas, 128>>>(times, 0); cudaEventRecord(e);
    CHECK(cudaEventSynchronize(e)); CHECK(cudaGetLastError()); cudaEventElapsedTime(&us, b, e); best = std::min(best, us * 1000);
  }
  printf("{\"program\": \"local\", \"words\": %d, \"loads\": %d, \"ctas\": %d, \"times\": %d, \"us\": %.2f, \"stored_TB_s\": %.3f}\n", W, L, ctas, times, best, 1e-6 * W * 4.0 * 128 * ctas * times / best);
}
int main() {
  for (int ctas : {132, 132 * 4, 132 * 16, 132 * 64}) { run<7, 0>(ctas); run<7, 1>(ctas); run<7, 3>(ctas); run<7, 7>(ctas); run<1, 0>(ctas); run<1, 1>(ctas); run<3, 0>(ctas); run<3, 3>(ctas); }
}
