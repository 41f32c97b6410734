// What L1 of an H200 still has of what it served before, and what a hit waits for beside loads that miss.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 l1_hits.cu -o l1_hits
//   ./l1_hits > l1_hits.jsonl
//
// Beside misses: one warp loads one word after the other, each from a place that the one before names, from a line that
// L1 has (LDG), or from shared memory (LDS); other warps of its CTA load tiles of 512 B, `deep` at once, that L1 does
// not have, or store as many, wait, and pause. Cycles of the first warp's loads: mean, and how many of 100 take longer
// than 100 cycles.
// Kept: four warps load a set of lines again and again, each time behind so many fresh bytes that nobody loads again
// (or behind copies of as many, or storing to each line as well); a load of less than `HIT` cycles has hit.
// One CTA an SM, on all SMs; everything runs twice, and the second run counts.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include "check.cuh"

enum Chain { LDG, LDS };
enum Beside { NOTHING, LOADS, COPIES, STORES };
const char *CHAINS[] = {"LDG", "LDS"}, *BESIDES[] = {"nothing", "LDG", "LDGSTS", "STG"};
constexpr int CHAINED = 4000, LONG = 100, HIT = 120, ROUNDS = 60, WARPS = 4;
constexpr size_t DATA = (size_t)8 << 30, IN_L2 = (size_t)16 << 20;
struct Counts { long long a, b, c; };

extern __shared__ __align__(1024) char memory[];
__device__ unsigned sink;

__global__ void beside_misses(const char *data, char *written, const unsigned *zeros, size_t stretch, int chain, int beside,
                              int deep, int pause, Counts *counts) {
  __shared__ volatile int over;
  __shared__ unsigned nothing[32], read[32];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x < 32) nothing[lane] = 0;
  if (threadIdx.x == 0) over = 0;
  __syncthreads();
  Counts sum{};
  if (warp == 0) {
    const unsigned *own = zeros + blockIdx.x * 32;
    unsigned at = 0, local = (unsigned)__cvta_generic_to_shared(nothing);
    unsigned kept = (unsigned)__cvta_generic_to_shared(read) + lane * 4;
    for (int i = 0; i < CHAINED; ++i) {
      unsigned next;
      long long begin = clock64();
      if (chain == LDG) asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(next) : "l"(own + at) : "memory");
      else asm volatile("ld.shared.u32 %0, [%1];" : "=r"(next) : "r"(local + at * 4) : "memory");
      asm volatile("st.shared.u32 [%0], %1;" ::"r"(kept), "r"(next) : "memory");  // clock64 waits for what it reads
      at = next & 31;
      long long took = clock64() - begin;
      sum.a += took;
      sum.b += took > LONG;
    }
    over = 1;
    if (lane == 0) counts[blockIdx.x] = sum;
  } else {
    const char *first = data + (blockIdx.x * (blockDim.x / 32 - 1) + warp - 1) * stretch + lane * 16, *from = first;
    char *to = written + (from - data);
    unsigned found = 0, mine = (unsigned)__cvta_generic_to_shared(memory) + threadIdx.x * 16, hash = blockIdx.x * 977 + warp;
    while (beside != NOTHING && !over) {
      uint4 v[8];
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (i < deep) {
          if (beside == LOADS)
            asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w) : "l"(from + i * 512) : "memory");
          if (beside == COPIES) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(mine), "l"(from + i * 512) : "memory");
          if (beside == STORES) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(to + (from - first) + i * 512), "r"(found) : "memory");
        }
      if (beside == LOADS)
#pragma unroll
        for (int i = 0; i < 8; ++i) if (i < deep) found += v[i].x;
      if (beside == COPIES) asm volatile("cp.async.wait_all;" ::: "memory");
      from += deep * 512;
      if (from + 8 * 512 > first + stretch) from = first;
      hash = hash * 1664525u + 1013904223u;
      long long now = clock64(), rest = pause / 2 + (pause ? (hash >> 8) % pause : 0);
      while (clock64() - now < rest) {}
    }
    if (found == 77) sink = found;
  }
}

__global__ void kept(const char *data, char *set, int lines, int fresh, int copies, int stores, Counts *counts) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned mine = (unsigned)__cvta_generic_to_shared(memory) + threadIdx.x * 16, found = 0;
  const char *from = data + (size_t)blockIdx.x * (DATA / 132 / 4096 * 4096) + threadIdx.x * 16;
  __shared__ unsigned read[32 * WARPS];
  unsigned read_to = (unsigned)__cvta_generic_to_shared(read) + threadIdx.x * 4;
  char *own = set + (size_t)blockIdx.x * (512 << 10) + lane * 4;
  Counts sum{};
  for (int round = 0; round < ROUNDS; ++round) {
    for (int i = 0; i < fresh; i += WARPS * 512) {
      if (copies) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(mine), "l"(from) : "memory");
      else {
        uint4 v;
        asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from) : "memory");
        found += v.x;
      }
      from += WARPS * 512;
    }
    if (copies) asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    for (int line = warp; line < lines; line += WARPS) {
      unsigned v;
      long long begin = clock64();
      asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(own + line * 128) : "memory");
      asm volatile("st.shared.u32 [%0], %1;" ::"r"(read_to), "r"(v) : "memory");  // clock64 waits for what it reads
      long long took = clock64() - begin;
      if (round >= ROUNDS / 3) { sum.a += took < HIT; sum.b += 1; sum.c += took; }
      if (stores) asm volatile("st.global.u32 [%0], %1;" ::"l"(own + line * 128), "r"(round) : "memory");
    }
    __syncthreads();
  }
  if (lane == 0) counts[blockIdx.x * WARPS + warp] = sum;
  if (found == 77) sink = found;
}

int main() {
  char *data, *written, *set;
  unsigned *zeros;
  Counts *counts;
  CHECK(cudaMalloc(&data, DATA));
  CHECK(cudaMalloc(&written, DATA));
  CHECK(cudaMalloc(&set, (size_t)132 * (512 << 10)));
  CHECK(cudaMalloc(&zeros, 132 * 128));
  CHECK(cudaMemset(zeros, 0, 132 * 128));
  CHECK(cudaMemset(set, 0, (size_t)132 * (512 << 10)));
  CHECK(cudaMallocManaged(&counts, sizeof(Counts) * 132 * 32));
  for (int chain : {LDG, LDS})
    for (int beside : {NOTHING, LOADS, COPIES, STORES})
      for (int streams : {1, 4, 15})
        for (int deep : {1, 4, 8})
          for (int pause : {0, 1000, 4000})
            for (bool hbm : {false, true}) {
              if (beside == NOTHING && (streams > 1 || deep > 1 || pause || hbm)) continue;
              size_t stretch = (hbm ? DATA : IN_L2) / 132 / streams / 4096 * 4096;
              for (int twice = 0; twice < 2; ++twice) {
                beside_misses<<<132, 32 * (1 + streams), 16384>>>(data, written, zeros, stretch, chain, beside, deep, pause, counts);
                CHECK(cudaDeviceSynchronize());
              }
              double cycles = 0, late = 0;
              for (int i = 0; i < 132; ++i) cycles += counts[i].a / 132.0 / CHAINED, late += 100.0 * counts[i].b / 132.0 / CHAINED;
              printf("{\"chain\": \"%s\", \"beside\": \"%s\", \"warps\": %d, \"deep\": %d, \"pause_cycles\": %d, \"from\": \"%s\", "
                     "\"cycles\": %.1f, \"late_percent\": %.1f}\n", CHAINS[chain], BESIDES[beside], streams, deep, pause, hbm ? "HBM" : "L2", cycles, late);
            }
  CHECK(cudaFuncSetAttribute(kept, cudaFuncAttributeMaxDynamicSharedMemorySize, 226 << 10));
  for (int taken : {228, 164, 100})
    for (int mode : {0, 1, 2}) {
      CHECK(cudaFuncSetAttribute(kept, cudaFuncAttributePreferredSharedMemoryCarveout, (taken * 100 + 227) / 228));
      int room = 256 - taken, shared = (taken - 3) << 10;
      for (int percent : {25, 50, 75})
        for (int reach : {25, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 160, 180, 200, 250, 300, 400}) {
          int lines = room * 8 * percent / 100, fresh = (room * reach / 100 - lines / 8) * 1024 / 2048 * 2048;
          if (fresh < 0) continue;
          for (int twice = 0; twice < 2; ++twice) {
            kept<<<132, 32 * WARPS, shared>>>(data, set, lines, fresh, mode == 1, mode == 2, counts);
            CHECK(cudaDeviceSynchronize());
          }
          double hits = 0, loads = 0, cycles = 0;
          for (int i = 0; i < 132 * WARPS; ++i) hits += counts[i].a, loads += counts[i].b, cycles += counts[i].c;
          printf("{\"room_kib\": %d, \"set_kib\": %.1f, \"fresh_kib\": %d, \"by\": \"%s\", \"stores\": %s, \"hits\": %.4f, \"cycles\": %.1f}\n",
                 room, lines / 8.0, fresh / 1024, mode == 1 ? "LDGSTS" : "LDG", mode == 2 ? "true" : "false", hits / loads, cycles / loads);
        }
      // A set that is loaded again and again, and nothing else.
      for (int reach : {40, 60, 80, 90, 95, 100, 105, 110, 120, 130, 150, 200, 300}) {
        if (mode == 1) break;
        int lines = room * 8 * reach / 100;
        for (int twice = 0; twice < 2; ++twice) {
          kept<<<132, 32 * WARPS, shared>>>(data, set, lines, 0, 0, mode == 2, counts);
          CHECK(cudaDeviceSynchronize());
        }
        double hits = 0, loads = 0, cycles = 0;
        for (int i = 0; i < 132 * WARPS; ++i) hits += counts[i].a, loads += counts[i].b, cycles += counts[i].c;
        printf("{\"room_kib\": %d, \"set_kib\": %.1f, \"fresh_kib\": 0, \"by\": \"LDG\", \"stores\": %s, \"hits\": %.4f, \"cycles\": %.1f}\n",
               room, lines / 8.0, mode == 2 ? "true" : "false", hits / loads, cycles / loads);
      }
    }
}
