// How long a CTA waits for a tile while all SMs of an H200 load tiles, from L2 or from HBM.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 loaded_latency.cu -o loaded_latency
//   ./loaded_latency > loaded_latency.jsonl
//
// Each CTA of four warps loads a tile by LDGSTS, waits for all of it, pauses, and loads the next one behind it
// in a stream of its own (or, of L2, in one that it shares). Pauses vary by a quarter, so that CTAs do not keep
// step. Each line on stdout is a measurement: mean cycles from the first LDGSTS until all may use the tile,
// and what all SMs load in a cycle.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include "check.cuh"
#include "tiles.cuh"

constexpr int MOST = 2;
constexpr size_t DATA = (size_t)32 << 30, IN_L2 = (size_t)16 << 20;

extern __shared__ __align__(1024) char memory[];

template <int PIECES>
__global__ void __launch_bounds__(THREADS)
stream(const char *data, size_t stretch, int rounds, int pause, Count *counts) {
  unsigned to = __cvta_generic_to_shared(memory) + threadIdx.x * 16, hash = blockIdx.x * 2654435761u + 1;
  const char *from = data + blockIdx.x * stretch + threadIdx.x * 16;
  long long waited = 0, start = clock64();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    auto [begin, there] = load_tile<PIECES>(to, from);
    waited += there - begin;
    from += PIECES * PIECE;
    hash = hash * 1664525u + 1013904223u;
    long long rest = pause * 3 / 4 + (pause ? (hash >> 8) % (pause / 2 + 1) : 0);
    while (clock64() - there < rest) {}
  }
  if (threadIdx.x == 0) counts[blockIdx.x] = {waited, clock64() - start, rounds};
}

char *data;
Count *counts;

template <int PIECES> void measure(bool hbm, int per_sm, int pause) {
  constexpr int TILE = PIECES * PIECE;
  int ctas = SMS * per_sm, rounds = (hbm ? DATA : IN_L2) / ctas / TILE;
  if (rounds > 4000) rounds = 4000;
  size_t stretch = (hbm ? DATA : IN_L2) / ctas / TILE * TILE;
  int shared = per_sm == 1 ? 200 << 10 : 100 << 10;
  CHECK(cudaFuncSetAttribute(stream<PIECES>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  cudaEvent_t events[2];
  for (auto &event : events) CHECK(cudaEventCreate(&event));
  float ms = 0;
  for (int i = 0; i < (hbm ? 1 : 4); ++i) {
    CHECK(cudaEventRecord(events[0]));
    stream<PIECES><<<ctas, THREADS, shared>>>(data, stretch, rounds, pause, counts);
    CHECK(cudaEventRecord(events[1]));
    CHECK(cudaEventSynchronize(events[1]));
    CHECK(cudaEventElapsedTime(&ms, events[0], events[1]));
  }
  std::vector<Count> result(ctas);
  CHECK(cudaMemcpy(result.data(), counts, sizeof(Count) * ctas, cudaMemcpyDefault));
  double waited = 0, cycles = 0;
  for (Count one : result) waited += (double)one.waited / one.tiles / ctas, cycles += (double)one.cycles / ctas;
  printf("{\"from\": \"%s\", \"tile_bytes\": %d, \"ctas_per_sm\": %d, \"pause_cycles\": %d, \"wait_cycles\": %.1f, "
         "\"bytes_per_cycle\": %.1f, \"bytes_per_s\": %.4g, \"clock_hz\": %.4g}\n", hbm ? "hbm" : "l2", TILE, per_sm,
         pause, waited, (double)ctas * rounds * TILE / cycles, (double)ctas * rounds * TILE / ms * 1e3,
         cycles / ms * 1e3);
}

template <int PIECES> void all() {
  for (bool hbm : {false, true})
    for (int per_sm : {1, 2})
      for (int pause : {8000, 4000, 2000, 1400, 1000, 700, 500, 350, 200, 0}) measure<PIECES>(hbm, per_sm, pause);
}

int main() {
  CHECK(cudaMalloc(&data, DATA));
  CHECK(cudaMemset(data, 0, DATA));
  CHECK(cudaMalloc(&counts, SMS * MOST * sizeof(Count)));
  all<2>(), all<4>(), all<8>(), all<16>();
}
