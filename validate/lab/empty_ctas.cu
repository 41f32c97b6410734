// How fast CTAs that return at once are handed out, by their warps, registers and shared memory.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 empty_ctas.cu -o empty_ctas
//   ./empty_ctas > empty_ctas.ndjson
//
// Each line: microseconds of a launch of so many CTAs, the median of seven.
#include <algorithm>
#include <cstdio>
#include <vector>
#include "check.cuh"

template <int VALUES> __global__ void empty(float *x, int n) {
  if (n > 0) {
    float v[VALUES];
    for (int i = 0; i < VALUES; ++i) v[i] = x[i * 1024 + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < VALUES; ++i) x[(i + n) * 1024 + threadIdx.x] = v[i] + v[(i + 3) % VALUES];
  }
}

template <int VALUES> void measure() {
  cudaFuncAttributes of;
  CHECK(cudaFuncGetAttributes(&of, empty<VALUES>));
  CHECK(cudaFuncSetAttribute(empty<VALUES>, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (int smem : {0, 8 << 10, 40 << 10})
    for (int warps : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32})
      for (int ctas : {150000, 450000}) {
        if (warps * 32 * of.numRegs > 65536) continue;
        std::vector<float> took;
        for (int i = 0; i < 9; ++i) {
          CHECK(cudaEventRecord(begin));
          empty<VALUES><<<ctas, 32 * warps, smem>>>(nullptr, 0);
          CHECK(cudaGetLastError());
          CHECK(cudaEventRecord(end));
          CHECK(cudaEventSynchronize(end));
          float ms;
          CHECK(cudaEventElapsedTime(&ms, begin, end));
          took.push_back(ms * 1000);
        }
        std::sort(took.begin(), took.end());
        printf("{\"registers\": %d, \"smem\": %d, \"warps\": %d, \"ctas\": %d, \"us\": %.2f}\n", of.numRegs, smem, warps, ctas, took[4]);
      }
}

int main() {
  measure<2>();
  measure<24>();
  measure<56>();
  measure<110>();
}
