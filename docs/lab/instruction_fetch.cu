// How fast an SM issues code that does not fit its instruction caches: straight code of so many
// instructions, gone through again and again by so many warps of each sub-core, which begin together
// or at places of their own.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 instruction_fetch.cu -o instruction_fetch
//   ./instruction_fetch > instruction_fetch.ndjson
//
// Each line: instructions that a sub-core issues a cycle, the mean over the SMs. A warp's arithmetic
// does not need what is four instructions before: a lone warp could issue one each cycle or two.
#include <cstdio>
#include <vector>
#include "check.cuh"

constexpr int SMS = 132, SUB_CORES = 4, ISSUED = 1 << 16;
__device__ float sink;

template <int LENGTH> __global__ void straight(long long *spans, int apart) {
  float v[8];
  for (int i = 0; i < 8; ++i) v[i] = threadIdx.x + i;
  int warp = threadIdx.x / 32 / SUB_CORES, warps = blockDim.x / 32 / SUB_CORES;
  __syncthreads();
  long long start = clock64();
  // One after the other, by the time that a lone warp needs for the code, or together.
  while (apart && clock64() - start < (long long)LENGTH * 2 * warp / warps) {}
#pragma unroll 1
  for (int i = 0; i < ISSUED / LENGTH; ++i) {
#pragma unroll
    for (int j = 0; j < LENGTH; ++j) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(v[j % 8]));
  }
  long long done = clock64();
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += v[i];
  if (sum == 12345.5f) sink = sum;
  int sm;
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x % 32 == 0) {
    atomicMin((unsigned long long *)&spans[2 * sm], (unsigned long long)start);
    atomicMax((unsigned long long *)&spans[2 * sm + 1], (unsigned long long)done);
  }
}

template <int LENGTH> void measure() {
  long long *spans;
  CHECK(cudaMalloc(&spans, 2 * SMS * sizeof(long long)));
  std::vector<long long> got(2 * SMS);
  for (int warps : {1, 2, 4, 8})
    for (int apart : {0, 1}) {
      for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < SMS; ++i) got[2 * i] = ~0ll, got[2 * i + 1] = 0;
        CHECK(cudaMemcpy(spans, got.data(), got.size() * sizeof(long long), cudaMemcpyHostToDevice));
        straight<LENGTH><<<SMS, 32 * SUB_CORES * warps>>>(spans, apart);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(got.data(), spans, got.size() * sizeof(long long), cudaMemcpyDeviceToHost));
      }
      double total = 0;
      for (int i = 0; i < SMS; ++i) total += got[2 * i + 1] - got[2 * i];
      printf("{\"instructions\": %d, \"warps\": %d, \"apart\": %d, \"issued_per_cycle\": %.4f}\n", LENGTH, warps,
             apart, double(ISSUED) * warps * SMS / total);
    }
  CHECK(cudaFree(spans));
}

int main() {
  measure<64>();
  measure<128>();
  measure<256>();
  measure<512>();
  measure<1024>();
  measure<2048>();
  measure<4096>();
  measure<8192>();
  measure<16384>();
  measure<32768>();
}
