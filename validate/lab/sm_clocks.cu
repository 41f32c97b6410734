// The clock of an SM of an H200 while tile products and pauses without any take turns.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 sm_clocks.cu -o sm_clocks
//   ./sm_clocks > sm_clocks.jsonl
//
// A warpgroup multiplies, waits for the last product, and pauses, with or without FP32 work, again and
// again for some milliseconds. Each line on stdout is a measurement: cycles of a round by clock64, and
// cycles over the time that globaltimer tells, in the mean of all CTAs and in the slowest and fastest.
#include <cstdio>
#include <vector>
#include "check.cuh"
#include "wgmma.cuh"

constexpr int SMS = 132, BATCH = 4;
constexpr int TILES = 24 << 10;              // shared memory of A (64 x 64) and B (128 x 64)
constexpr unsigned long long LASTS = 3'000'000;  // ns, after a quarter of it to settle
constexpr float NEVER = 12345;               // a sum that does not occur

struct Time { unsigned long long ns, cycles, rounds; };

extern __shared__ __align__(1024) char memory[];
__shared__ bool again;
__device__ float sink;

__device__ unsigned now() {
  unsigned cycles;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(cycles)::"memory");
  return cycles;
}

__device__ Time elapsed() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return {ns, (unsigned long long)clock64(), 0};
}

template <int N, bool A_SHARED>
__global__ void take_turns(int batches, unsigned pause, bool work, unsigned zero, Time *times) {
  unsigned a[4];
  float d[N / 2] = {}, sum = 0, number = threadIdx.x;
  for (int i = 0; i < 4; ++i) a[i] = zero * (threadIdx.x * 4 + i + 1);
  for (int i = threadIdx.x; i < TILES / 4; i += blockDim.x) ((int *)memory)[i] = 0;
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  Time start = elapsed(), end;
  bool settled = false;
  unsigned long long rounds = 0;
  do {
    if (batches) {
      begin_products();
      fence_registers<N / 2>(d);
      for (int batch = 0; batch < batches; ++batch) {
#pragma unroll
        for (int i = 0; i < BATCH; ++i) multiply_next<N, A_SHARED>(d, a, memory, i);
      }
      end_products();
      fence_registers<N / 2>(d);
    }
    unsigned begin = now();
    while (now() - begin < pause) {
      if (work) {
#pragma unroll
        for (int i = 0; i < 32; ++i) number = number * (1.0f + zero) + 0.5f;
      }
    }
    ++rounds;
    // One thread decides for all: products need all four warps.
    if (threadIdx.x == 0) {
      end = elapsed();
      if (!settled && end.ns - start.ns > LASTS / 4) settled = true, start = end, rounds = 0;
      again = !settled || end.ns - start.ns < LASTS;
    }
    __syncthreads();
    if (!again) break;
    __syncthreads();
  } while (true);
  for (int i = 0; i < N / 2; ++i) sum += d[i];
  if (sum + number == NEVER) sink = sum;
  if (threadIdx.x == 0) times[blockIdx.x] = {end.ns - start.ns, end.cycles - start.cycles, rounds};
}

template <int N, bool A_SHARED>
void measure(const char *name, Time *times, int ctas, int products, unsigned pause, bool work) {
  take_turns<N, A_SHARED><<<ctas, 128, TILES>>>(products / BATCH, pause, work, 0, times);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  std::vector<Time> result(ctas);
  CHECK(cudaMemcpy(result.data(), times, sizeof(Time) * ctas, cudaMemcpyDefault));
  double mean = 0, least = 1e9, most = 0, round = 0;
  for (Time one : result) {
    double ghz = (double)one.cycles / one.ns;
    mean += ghz / ctas, round += (double)one.cycles / one.rounds / ctas;
    least = ghz < least ? ghz : least, most = ghz > most ? ghz : most;
  }
  printf("{\"product\": \"%s\", \"ctas\": %d, \"products\": %d, \"pause_cycles\": %u, \"work\": %s, "
         "\"round_cycles\": %.0f, \"ghz\": %.4f, \"least_ghz\": %.4f, \"most_ghz\": %.4f}\n",
         name, ctas, products, pause, work ? "true" : "false", round, mean, least, most);
  fflush(stdout);
}

int main() {
  Time *times;
  CHECK(cudaMalloc(&times, SMS * sizeof(Time)));
  unsigned pauses[] = {0, 100, 200, 400, 500, 600, 700, 850, 1000, 1250, 1500, 2000, 3000, 4000, 6000,
                       10000, 20000, 50000};
  for (int ctas : {1, 2, 8, 16, 32, 64, SMS})
    for (int products : {0, 4, 8, 16, 64})
      for (unsigned pause : pauses) {
        if (!products && pause != 1000) continue;
        measure<64, true>("m64n64k16 SS", times, ctas, products, pause, false);
        if (ctas != 1) continue;
        measure<128, false>("m64n128k16 RS", times, ctas, products, pause, false);
        measure<64, true>("m64n64k16 SS", times, ctas, products, pause, true);
      }
}
