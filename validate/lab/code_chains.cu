// As instruction_fetch.cu, with so many independent chains of FFMA, by CTAs of four warps: so many go round the code, or
// (`once`) as many others follow each other through it.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 code_chains.cu -o code_chains && ./code_chains > code_chains.ndjson
#include <cstdio>
#include <vector>
#include "check.cuh"
constexpr int SMS = 132;
__device__ float sink;
template <int LENGTH, int CHAINS> __global__ void __launch_bounds__(128) straight(long long *spans, int times, float a, float b) {
  float v[8];
  for (int i = 0; i < 8; ++i) v[i] = threadIdx.x + i;
  long long start = clock64();
#pragma unroll 1
  for (int i = 0; i < times; ++i) {
#pragma unroll
    for (int j = 0; j < LENGTH / 8; ++j)
#pragma unroll
      for (int k = 0; k < 8; ++k) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(v[k % CHAINS]) : "f"(a), "f"(b));
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
template <int LENGTH, int CHAINS> void run(long long *spans, int warps, int once) {
  std::vector<long long> got(2 * SMS);
  // once: as many CTAs go through the code once, one after the other in each place, as others go round it.
  int times = (1 << 15) / LENGTH < 2 ? 2 : (1 << 15) / LENGTH;
  int waves = once ? times : 1;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < SMS; ++i) got[2 * i] = ~0ll, got[2 * i + 1] = 0;
    CHECK(cudaMemcpy(spans, got.data(), got.size() * sizeof(long long), cudaMemcpyHostToDevice));
    int smem = 227 * 1024 / warps - 1024;
    CHECK(cudaFuncSetAttribute(straight<LENGTH, CHAINS>, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
    straight<LENGTH, CHAINS><<<SMS * warps * waves, 128, smem>>>(spans, once ? 1 : times, 0.5f, 0.25f);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(got.data(), spans, got.size() * sizeof(long long), cudaMemcpyDeviceToHost));
  }
  double total = 0, ran = 0;
  for (int i = 0; i < SMS; ++i) if (got[2 * i + 1] > 0) total += double(got[2 * i + 1] - got[2 * i]), ran += 1;
  printf("{\"program\": \"chain\", \"instructions\": %d, \"chains\": %d, \"warps\": %d, \"once\": %d, \"ran\": %.0f, \"issued_per_cycle\": %.4f}\n", LENGTH, CHAINS, warps, once, ran, double(LENGTH) * times * warps * ran / total);
}
template <int LENGTH, int CHAINS> void all(long long *spans) {
  for (int warps : {1, 2, 3, 4, 6, 8, 10, 12, 16}) for (int once : {0, 1}) run<LENGTH, CHAINS>(spans, warps, once);
}
template <int LENGTH> void lengths(long long *spans) { all<LENGTH, 1>(spans); all<LENGTH, 2>(spans); all<LENGTH, 8>(spans); }
int main() {
  long long *spans;
  CHECK(cudaMalloc(&spans, 2 * SMS * sizeof(long long)));
  lengths<1536>(spans); lengths<2560>(spans); lengths<4096>(spans); lengths<6144>(spans); lengths<10240>(spans); lengths<16384>(spans);
}
