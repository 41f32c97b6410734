// What additions at L2 take: of many warps at few lines, at many, and beside each other in a line.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 atomics.cu -o atomics
//   ./atomics > atomics.jsonl
//
// Each warp adds `PER_WARP` times, each time to a line that a hash picks among `lines`. `spread`: of a warp's lanes
// over addresses. The same numbers of plain stores stand beside.
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include "check.cuh"

enum Op { ADD_F32, ADD_I32, ADD_F16X2, ADD_F32X4, GIVEN_BACK, STORE, OPS };
const char *OP[] = {"red f32", "red s32", "red f16x2", "red f32x4", "atom f32", "st f32"};
enum Spread { ALONG, SECTOR, WORD, APART, SPREADS };
const char *SPREAD[] = {"words of a line", "words of a sector", "one word", "a line each"};
constexpr int PER_WARP = 16, THREADS = 256, SMS = 132, RUNS = 5;

__device__ float sink;

template <int OP_> __device__ __forceinline__ float add(char *at) {
  float before = 0;
  if (OP_ == ADD_F32) asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(at), "f"(1.0f) : "memory");
  if (OP_ == ADD_I32) asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(at), "r"(1) : "memory");
  if (OP_ == ADD_F16X2) asm volatile("red.relaxed.gpu.global.add.noftz.f16x2 [%0], %1;" ::"l"(at), "r"(0x3c003c00) : "memory");
  if (OP_ == ADD_F32X4)
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(at), "f"(1.0f) : "memory");
  if (OP_ == GIVEN_BACK) asm volatile("atom.relaxed.gpu.global.add.f32 %0, [%1], %2;" : "=f"(before) : "l"(at), "f"(1.0f) : "memory");
  if (OP_ == STORE) asm volatile("st.global.f32 [%0], %1;" ::"l"(at), "f"(1.0f) : "memory");
  return before;
}

template <int OP_> __global__ void adds(char *data, unsigned lines, int spread) {
  unsigned lane = threadIdx.x % 32, warp = (blockIdx.x * THREADS + threadIdx.x) / 32, word = OP_ == ADD_F32X4 ? 16 : 4;
  float sum = 0;
  for (unsigned i = 0; i < PER_WARP; ++i) {
    unsigned pick = (warp * PER_WARP + i) * 2654435761u;
    pick = (pick ^ pick >> 15) * 2246822519u;
    pick ^= pick >> 13;
    size_t line = spread == APART ? (pick + lane * 40503u) % lines : pick % lines;
    unsigned in_line = spread == ALONG ? lane * word % 128 : spread == SECTOR ? lane * word % 32 : 0;
    // Vectors of 16 B fill four lines, which lie apart.
    if (OP_ == ADD_F32X4 && spread == ALONG) line = (line + lane / 8) % lines;
    sum += add<OP_>(data + line * 128 + in_line);
  }
  if (sum == 7e30f) sink = sum;
}

template <int OP_> void rows(char *data) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (int spread = 0; spread < SPREADS; ++spread)
    for (unsigned lines : {1u, 4u, 16u, 64u, 256u, 1024u, 16384u, 262144u})
      for (int ctas : {SMS, SMS * 8, SMS * 64}) {
        if (ctas != SMS * 8 && spread != ALONG) continue;
        if (spread == APART && lines < 32) continue;
        float best = 1e30f;
        for (int run = 0; run < RUNS; ++run) {
          float ms;
          CHECK(cudaEventRecord(begin));
          adds<OP_><<<ctas, THREADS>>>(data, lines, spread);
          CHECK(cudaEventRecord(end));
          CHECK(cudaEventSynchronize(end));
          CHECK(cudaEventElapsedTime(&ms, begin, end));
          best = ms < best ? ms : best;
        }
        printf("{\"op\": \"%s\", \"spread\": \"%s\", \"lines\": %u, \"ctas\": %d, \"warps\": %d, \"adds_a_warp\": %d, \"us\": %.3f}\n",
               OP[OP_], SPREAD[spread], lines, ctas, ctas * THREADS / 32, PER_WARP, best * 1e3f);
      }
}

int main() {
  char *data;
  CHECK(cudaMalloc(&data, (size_t)262144 * 128));
  CHECK(cudaMemset(data, 0, (size_t)262144 * 128));
  rows<ADD_F32>(data);
  rows<ADD_I32>(data);
  rows<ADD_F16X2>(data);
  rows<ADD_F32X4>(data);
  rows<GIVEN_BACK>(data);
  rows<STORE>(data);
}
