// Which sub-cores the warps of small CTAs run on: the warp slot (%warpid) of each warp, whose number modulo 4
// names the sub-core, in CTAs of one to four warps that last differently long, so that they are replaced in no order.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 warp_places.cu -o warp_places
//   ./warp_places > warp_places.jsonl
//
// Each line on stdout is a CTA: its number, SM, the slots of its warps, and when it began and ended [ns].
#include <cstdio>
#include <vector>
#include "check.cuh"

constexpr int MOST = 4;
struct Cta { int sm, slots[MOST]; long long begin, end; };
__device__ float sink;

__device__ long long now() { long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }

__global__ void __launch_bounds__(MOST * 32) place(Cta *ctas, int least, int spread, float x) {
  extern __shared__ char memory[];
  unsigned slot, sm, hash = (blockIdx.x * 2654435761u) >> 8;
  asm volatile("mov.u32 %0, %warpid;" : "=r"(slot));
  asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
  if (threadIdx.x == 0) ctas[blockIdx.x].sm = sm, ctas[blockIdx.x].begin = now();
  if (threadIdx.x % 32 == 0) ctas[blockIdx.x].slots[threadIdx.x / 32] = slot;
  for (int i = 0; i < least + (int)(hash % spread); ++i) x = x * 1.0001f + 0.5f;
  if (x == 12345) sink = x;
  __syncthreads();
  if (threadIdx.x == 0) ctas[blockIdx.x].end = now();
}

int main() {
  const int COUNT = 132 * 40;
  Cta *ctas;
  CHECK(cudaMalloc(&ctas, sizeof(Cta) * COUNT));
  CHECK(cudaFuncSetAttribute(place, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
  for (int warps : {1, 2, 3, 4})
    for (int resident : {3, 4, 6}) {
      std::vector<Cta> result(COUNT);
      place<<<COUNT, warps * 32, (200 << 10) / resident>>>(ctas, 2000, 20000, 1);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpy(result.data(), ctas, sizeof(Cta) * COUNT, cudaMemcpyDefault));
      for (int i = 0; i < COUNT; ++i) {
        Cta c = result[i];
        if (c.sm > 1) continue;
        printf("{\"warps\": %d, \"resident\": %d, \"cta\": %d, \"sm\": %d, \"slots\": [", warps, resident, i, c.sm);
        for (int w = 0; w < warps; ++w) printf("%s%d", w ? ", " : "", c.slots[w]);
        printf("], \"begin_ns\": %lld, \"end_ns\": %lld}\n", c.begin - result[0].begin, c.end - result[0].begin);
      }
    }
}
