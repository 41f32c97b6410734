// How long a CTA waits for a tile that others of an H200 load as well, from L2 or from HBM.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 shared_tiles.cu -o shared_tiles
//   ./shared_tiles > shared_tiles.jsonl
//
// CTAs of four warps begin together. Each loads a tile by LDGSTS, waits for all of it, pauses, and loads
// the next one of a stream that it shares with so many others. Pauses are equal, or vary by a quarter.
// Each line on stdout is a measurement after a first quarter of the rounds: mean cycles from the first
// LDGSTS until all may use the tile, of all CTAs, of the fastest and of the slowest; bytes a cycle.
#include <algorithm>
#include <cstdio>
#include <vector>
#include "check.cuh"
#include "tiles.cuh"

constexpr int MOST = 2, ROUNDS = 3000;
constexpr size_t DATA = (size_t)16 << 30, IN_L2 = (size_t)16 << 20;

extern __shared__ __align__(1024) char memory[];

template <int PIECES>
__global__ void __launch_bounds__(THREADS)
stream(const char *data, size_t stretch, int tiles, int rounds, int pause, bool vary, int share, Count *counts) {
  unsigned to = __cvta_generic_to_shared(memory) + threadIdx.x * 16, hash = blockIdx.x * 2654435761u + 1;
  const char *base = data + (blockIdx.x / share) * stretch + threadIdx.x * 16;
  long long waited = 0, start = clock64();
  int tile = 0, counted = 0;
  while (clock64() - start < 20000) {}
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    if (round == rounds / 4) start = clock64(), waited = counted = 0;
    const char *from = base + (size_t)tile * PIECES * PIECE;
    auto [begin, there] = load_tile<PIECES>(to, from);
    waited += there - begin, ++counted;
    tile = tile + 1 == tiles ? 0 : tile + 1;
    hash = hash * 1664525u + 1013904223u;
    long long rest = vary ? pause * 3 / 4 + (hash >> 8) % (pause / 2 + 1) : pause;
    while (clock64() - there < rest) {}
  }
  if (threadIdx.x == 0) counts[blockIdx.x] = {waited, clock64() - start, counted};
}

char *data;
Count *counts;

template <int PIECES> void measure(bool hbm, int per_sm, int share, bool vary, int pause) {
  constexpr int TILE = PIECES * PIECE;
  int ctas = SMS * per_sm, streams = (ctas + share - 1) / share;
  size_t stretch = (hbm ? DATA : IN_L2) / streams / TILE * TILE;
  int tiles = (int)std::min<size_t>(stretch / TILE, hbm ? ROUNDS : ROUNDS / 8);
  int rounds = hbm ? tiles : ROUNDS, shared = (per_sm == 1 ? 200 : 100) << 10;
  CHECK(cudaFuncSetAttribute(stream<PIECES>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  stream<PIECES><<<ctas, THREADS, shared>>>(data, stretch, tiles, rounds, pause, vary, share, counts);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  std::vector<Count> result(ctas);
  CHECK(cudaMemcpy(result.data(), counts, sizeof(Count) * ctas, cudaMemcpyDefault));
  double mean = 0, least = 1e9, most = 0, rate = 0;
  for (Count one : result) {
    double wait = (double)one.waited / one.tiles;
    mean += wait / ctas, least = std::min(least, wait), most = std::max(most, wait);
    rate += (double)one.tiles * TILE / one.cycles;
  }
  printf("{\"from\": \"%s\", \"tile_bytes\": %d, \"ctas_per_sm\": %d, \"share\": %d, \"pause_cycles\": %d, "
         "\"vary\": %s, \"wait_cycles\": %.0f, \"least_cycles\": %.0f, \"most_cycles\": %.0f, "
         "\"bytes_per_cycle\": %.0f}\n", hbm ? "hbm" : "l2", TILE, per_sm, share, pause, vary ? "true" : "false",
         mean, least, most, rate);
  fflush(stdout);
}

template <int PIECES> void all() {
  for (bool hbm : {false, true})
    for (int per_sm : {1, 2})
      for (int share : {1, 4, 16, 66, 264})
        for (bool vary : {false, true})
          for (int pause : {2000, 1000, 300}) measure<PIECES>(hbm, per_sm, share, vary, pause);
}

int main() {
  CHECK(cudaMalloc(&data, DATA));
  CHECK(cudaMemset(data, 0, DATA));
  CHECK(cudaMalloc(&counts, SMS * MOST * sizeof(Count)));
  all<4>(), all<8>();
}
