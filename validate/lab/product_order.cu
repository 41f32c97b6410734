// When tile products of several warpgroups issue and end on one SM of an H200: how many of them a
// warpgroup issues ahead, in which order the tensor cores serve them, and how long the wait takes.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 product_order.cu -o product_order
//   ./product_order > product_order.jsonl
//
// Warpgroups of a CTA, one CTA on an SM, meet at a barrier; each then waits a while of its own, issues
// a chain of products and waits for it, again and again. Each line on stdout has, for each of them,
// when its first warp had issued each product, and when its wait was over, in cycles since the
// barrier: means over rounds and CTAs.
#include <cstdio>
#include <vector>
#include "check.cuh"
#include "wgmma.cuh"

constexpr int SMS = 132, ROUNDS = 256, CHAIN = 16, MOST_GROUPS = 3;
constexpr int TILES = 24 << 10;  // shared memory of A (64 x 64) and B (128 x 64)
constexpr float NEVER = 12345;   // a sum that does not occur

struct Times { unsigned issued[CHAIN], ended; };     // sums over rounds [cycles]
struct Turn { unsigned meeting, issuing, waiting; };  // likewise

extern __shared__ __align__(1024) char memory[];
__device__ float sink;

__device__ unsigned now() {
  unsigned cycles;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(cycles)::"memory");
  return cycles;
}

template <int N, bool A_SHARED>
__global__ void __launch_bounds__(MOST_GROUPS * 128, 1)
order(unsigned later, unsigned zero, Times *times) {
  int group = threadIdx.x / 128;
  unsigned a[4], issued[CHAIN], sums[CHAIN + 1] = {};
  float d[N / 2] = {}, sum = 0;
  for (int i = 0; i < 4; ++i) a[i] = zero * (threadIdx.x * 4 + i + 1);
  for (int i = threadIdx.x; i < TILES / 4; i += blockDim.x) ((int *)memory)[i] = 0;
  asm volatile("fence.proxy.async;" ::: "memory");
#pragma unroll 1
  for (int round = 0; round < ROUNDS; ++round) {
    __syncthreads();
    unsigned start = now();
    while (now() - start < group * later + 40) {}
    begin_products();
    fence_registers<N / 2>(d);
#pragma unroll
    for (int i = 0; i < CHAIN; ++i) {
      multiply_next<N, A_SHARED>(d, a, memory, i);
      issued[i] = now();
    }
    end_products();
    sums[CHAIN] += now() - start;
    fence_registers<N / 2>(d);
#pragma unroll
    for (int i = 0; i < CHAIN; ++i) sums[i] += issued[i] - start;
  }
  for (int i = 0; i < N / 2; ++i) sum += d[i];
  if (sum == NEVER) sink = sum;
  if (threadIdx.x % 128 == 0) {
    Times &mine = times[blockIdx.x * MOST_GROUPS + group];
    for (int i = 0; i < CHAIN; ++i) mine.issued[i] = sums[i];
    mine.ended = sums[CHAIN];
  }
}

// Warpgroups of several CTAs of an SM issue a chain, wait for it and do something else, each at its
// own pace, but those of a CTA meet at a barrier before each chain.
template <int N, bool A_SHARED>
__global__ void in_turns(unsigned pause, unsigned zero, Turn *turns) {
  unsigned a[4], start = 0, first = 0, last = 0, meeting = 0, issuing = 0, waiting = 0;
  float d[N / 2] = {}, sum = 0;
  for (int i = 0; i < 4; ++i) a[i] = zero * (threadIdx.x * 4 + i + 1);
  for (int i = threadIdx.x; i < TILES / 4; i += blockDim.x) ((int *)memory)[i] = 0;
  asm volatile("fence.proxy.async;" ::: "memory");
#pragma unroll 1
  for (int round = 0; round < ROUNDS; ++round) {
    start = now();
    while (now() - start < pause) {}
    start = now();
    __syncthreads();
    begin_products();
    fence_registers<N / 2>(d);
#pragma unroll
    for (int i = 0; i < CHAIN; ++i) {
      multiply_next<N, A_SHARED>(d, a, memory, i);
      if (i == 0) first = now();
    }
    last = now();
    end_products();
    meeting += first - start;
    issuing += last - first;
    waiting += now() - last;
    fence_registers<N / 2>(d);
  }
  for (int i = 0; i < N / 2; ++i) sum += d[i];
  if (sum == NEVER) sink = sum;
  if (threadIdx.x % 128 == 0)
    turns[(blockIdx.x * blockDim.x + threadIdx.x) / 128] = {meeting, issuing, waiting};
}

template <int N, bool A_SHARED> void measure_turns(Turn *turns) {
  auto kernel = in_turns<N, A_SHARED>;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, TILES));
  for (int ctas : {1, 2})
    for (int groups : {1, 2})
      for (unsigned pause : {0, 300, 600, 1200}) {
        std::vector<Turn> found(SMS * ctas * groups);
        for (int i = 0; i < 2; ++i) kernel<<<SMS * ctas, groups * 128, TILES>>>(pause, 0, turns);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(found.data(), turns, sizeof(Turn) * found.size(), cudaMemcpyDefault));
        double meeting = 0, issuing = 0, waiting = 0, count = found.size() * (double)ROUNDS;
        for (Turn &one : found)
          meeting += one.meeting, issuing += one.issuing, waiting += one.waiting;
        printf("{\"product\": \"m64n%dk16 %s\", \"ctas_per_sm\": %d, \"groups\": %d, "
               "\"pause_cycles\": %u, \"to_first_cycles\": %.1f, \"to_last_cycles\": %.1f, "
               "\"wait_cycles\": %.1f}\n", N, A_SHARED ? "SS" : "RS", ctas, groups, pause,
               meeting / count, issuing / count, waiting / count);
      }
}

template <int N, bool A_SHARED> void measure(Times *times) {
  auto kernel = order<N, A_SHARED>;
  std::vector<Times> found(SMS * MOST_GROUPS);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, TILES));
  for (int groups = 1; groups <= MOST_GROUPS; ++groups)
    for (int later : {0, 60, 200, 400}) {
      if (groups == 1 && later) continue;
      for (int i = 0; i < 2; ++i) kernel<<<SMS, groups * 128, TILES>>>(later, 0, times);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpy(found.data(), times, sizeof(Times) * found.size(), cudaMemcpyDefault));
      for (int group = 0; group < groups; ++group) {
        printf("{\"product\": \"m64n%dk16 %s\", \"groups\": %d, \"later_cycles\": %d, "
               "\"group\": %d, \"issued_cycles\": [", N, A_SHARED ? "SS" : "RS", groups, later, group);
        for (int i = 0; i <= CHAIN; ++i) {
          double sum = 0;
          for (int cta = 0; cta < SMS; ++cta) {
            Times &one = found[cta * MOST_GROUPS + group];
            sum += i < CHAIN ? one.issued[i] : one.ended;
          }
          printf(i < CHAIN ? "%s%.1f" : "%s%.1f}\n",
                 i == 0 ? "" : i < CHAIN ? ", " : "], \"ended_cycles\": ", sum / SMS / ROUNDS);
        }
      }
    }
}

int main() {
  Times *times;
  CHECK(cudaMalloc(&times, sizeof(Times) * SMS * MOST_GROUPS));
  measure<16, true>(times), measure<32, true>(times), measure<64, true>(times);
  measure<128, true>(times), measure<64, false>(times), measure<128, false>(times);
  Turn *turns = (Turn *)times;
  measure_turns<16, true>(turns), measure_turns<64, true>(turns), measure_turns<64, false>(turns);
}
