// How long a CTA of an H200 waits for a tile, from L2 or from HBM, while SMs write as much as they load.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 mixed_latency.cu -o mixed_latency
//   ./mixed_latency > mixed_latency.jsonl
//
// Each CTA of four warps loads a tile by LDGSTS, waits for all of it, pauses, and loads the next one behind it
// in a stream of its own; what is to come from L2 are streams that fit it. Nobody writes (`none`); or each CTA, before
// it pauses, writes as much, in lines, to a stream of its own (`own`); or every second CTA does nothing else (`others`).
// Pauses vary by a quarter, so that CTAs do not keep step. Each line on stdout is a measurement: mean cycles from the
// first LDGSTS until all may use the tile, in which a CTA issues its stores, and what all load and write in a cycle.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include "check.cuh"
#include "tiles.cuh"

enum Writes { NONE, OWN, OTHERS };
const char *WRITES[] = {"none", "own", "others"};
constexpr int MOST = 2;
constexpr size_t DATA = (size_t)32 << 30, IN_L2 = (size_t)12 << 20;
struct Mixed { long long waited, stored, cycles, loads, stores; };

extern __shared__ __align__(1024) char memory[];

template <int PIECES>
__global__ void __launch_bounds__(THREADS)
mix(const char *data, char *written, size_t stretch, size_t region, int rounds, int pause, int writes, Mixed *counts) {
  unsigned to = __cvta_generic_to_shared(memory) + threadIdx.x * 16, hash = blockIdx.x * 2654435761u + 1;
  const char *first = data + blockIdx.x * stretch + threadIdx.x * 16, *from = first;
  char *out = written + blockIdx.x * region + threadIdx.x * 16;
  bool loads = writes != OTHERS || blockIdx.x % 2 == 0, stores = writes == OWN || (writes == OTHERS && !loads);
  Mixed sum{};
  long long start = clock64();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    if (loads) {
      auto [begin, there] = load_tile<PIECES>(to, from);
      sum.waited += there - begin;
      ++sum.loads;
      from += PIECES * PIECE;
      if (from >= first + stretch) from = first;
    }
    long long begin = clock64();
    if (stores) {
#pragma unroll
      for (int i = 0; i < PIECES; ++i)
        asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(out + (size_t)i * PIECE), "r"(round) : "memory");
      out += PIECES * PIECE;
      sum.stored += clock64() - begin;
      ++sum.stores;
    }
    hash = hash * 1664525u + 1013904223u;
    long long now = clock64(), rest = pause * 3 / 4 + (pause ? (hash >> 8) % (pause / 2 + 1) : 0);
    while (clock64() - now < rest) {}
  }
  sum.cycles = clock64() - start;
  if (threadIdx.x == 0) counts[blockIdx.x] = sum;
}

char *data, *written;
Mixed *counts;

template <int PIECES> void measure(bool hbm, int writes, int per_sm, int pause) {
  constexpr int TILE = PIECES * PIECE;
  int ctas = SMS * per_sm, rounds = DATA / ctas / TILE;
  if (rounds > 2000) rounds = 2000;
  size_t region = DATA / ctas / TILE * TILE, stretch = (hbm ? DATA : IN_L2) / ctas / TILE * TILE;
  int shared = per_sm == 1 ? 200 << 10 : 100 << 10;
  CHECK(cudaFuncSetAttribute(mix<PIECES>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  cudaEvent_t events[2];
  for (auto &event : events) CHECK(cudaEventCreate(&event));
  float ms = 0;
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaEventRecord(events[0]));
    mix<PIECES><<<ctas, THREADS, shared>>>(data, written, stretch, region, rounds, pause, writes, counts);
    CHECK(cudaEventRecord(events[1]));
    CHECK(cudaEventSynchronize(events[1]));
    CHECK(cudaEventElapsedTime(&ms, events[0], events[1]));
  }
  std::vector<Mixed> result(ctas);
  CHECK(cudaMemcpy(result.data(), counts, sizeof(Mixed) * ctas, cudaMemcpyDefault));
  double waited = 0, stored = 0, cycles = 0, loads = 0, stores = 0;
  for (Mixed one : result) {
    waited += one.waited, stored += one.stored, loads += one.loads, stores += one.stores;
    cycles += (double)one.cycles / ctas;
  }
  printf("{\"from\": \"%s\", \"writes\": \"%s\", \"tile_bytes\": %d, \"ctas_per_sm\": %d, \"pause_cycles\": %d, "
         "\"wait_cycles\": %.1f, \"store_cycles\": %.1f, \"loaded_bytes_per_cycle\": %.1f, "
         "\"written_bytes_per_cycle\": %.1f, \"clock_hz\": %.4g}\n", hbm ? "hbm" : "l2", WRITES[writes], TILE, per_sm,
         pause, waited / loads, stores ? stored / stores : 0.0, loads * TILE / cycles, stores * TILE / cycles,
         cycles / ms * 1e3);
}

template <int PIECES> void all() {
  for (bool hbm : {false, true})
    for (int writes : {NONE, OWN, OTHERS})
      for (int per_sm : {1, 2})
        for (int pause : {8000, 4000, 2000, 1000, 500, 0}) measure<PIECES>(hbm, writes, per_sm, pause);
}

int main() {
  CHECK(cudaMalloc(&data, DATA));
  CHECK(cudaMalloc(&written, DATA));
  CHECK(cudaMemset(data, 0, DATA));
  CHECK(cudaMalloc(&counts, SMS * MOST * sizeof(Mixed)));
  all<2>(), all<4>(), all<8>(), all<12>();
}
