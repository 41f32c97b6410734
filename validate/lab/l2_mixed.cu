// Whether loads from L2 and stores to it take turns: time of kernels that load and store in several proportions.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 l2_mixed.cu -o l2_mixed
//   ./l2_mixed > l2_mixed.ndjson
//
// A warp loads, or stores, 512 B at a time, whole lines; places follow a hash in 8 MiB that all CTAs load and 8 MiB that
// all CTAs store, which L2 holds. Loads pass L1 by. One CTA of 32 warps on each SM; or two, where "ctas" says so.
// Each line on stdout is a measurement: loads and stores of a turn, cycles of the longest CTA and us of the kernel, the
// best of four. Terabytes a second are of what is loaded, and stored.
#include <algorithm>
#include <cstdio>
#include "check.cuh"

constexpr int SMS = 132, WARPS = 32, TURNS = 256;
constexpr size_t REGION = (size_t)8 << 20, PIECE = 512;

__device__ unsigned sink;

__device__ unsigned hash(unsigned x) {
  x *= 2654435761u;
  x = (x ^ x >> 15) * 2246822519u;
  return x ^ x >> 13;
}

template <int LOADS, int STORES> __global__ void turns(char *data, long long *cycles) {
  unsigned lane = threadIdx.x % 32, warp = blockIdx.x * WARPS + threadIdx.x / 32, warps = gridDim.x * WARPS, sum = 0;
  long long start = clock64();
#pragma unroll 2
  for (int i = 0; i < TURNS; ++i) {
    unsigned place = hash(i * warps + warp);
#pragma unroll
    for (int j = 0; j < LOADS; ++j) {
      const char *at = data + (place + j * 37u) % (REGION / PIECE) * PIECE + lane * 16;
      unsigned a, b, c, d;
      asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(at));
      sum += a ^ b ^ c ^ d;
    }
#pragma unroll
    for (int j = 0; j < STORES; ++j) {
      char *at = data + REGION + (place * 7u + j * 37u) % (REGION / PIECE) * PIECE + lane * 16;
      asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(at), "r"(i) : "memory");
    }
  }
  if (sum == 12345u) sink = sum;
  __syncthreads();
  if (!threadIdx.x) cycles[blockIdx.x] = clock64() - start;
}

template <int LOADS, int STORES> void measure(char *data, long long *cycles) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (int ctas : {1, 2}) {
    long long fewest = 1ll << 60;
    float best = 1e9f;
    for (int run = 0; run < 4; ++run) {
      CHECK(cudaEventRecord(begin));
      turns<LOADS, STORES><<<SMS * ctas, WARPS * 32>>>(data, cycles);
      CHECK(cudaEventRecord(end));
      CHECK(cudaEventSynchronize(end));
      float ms;
      CHECK(cudaEventElapsedTime(&ms, begin, end));
      best = std::min(best, ms);
      fewest = std::min(fewest, *std::max_element(cycles, cycles + SMS * ctas));
    }
    double pieces = (double)SMS * ctas * WARPS * TURNS * PIECE / best / 1e9;
    printf("{\"loads\": %d, \"stores\": %d, \"ctas\": %d, \"cycles\": %lld, \"us\": %.2f, \"loaded_tb_s\": %.3f, "
           "\"stored_tb_s\": %.3f}\n", LOADS, STORES, ctas, fewest, best * 1e3, LOADS * pieces, STORES * pieces);
  }
}

int main() {
  char *data;
  long long *cycles;
  CHECK(cudaMalloc(&data, 2 * REGION));
  CHECK(cudaMallocManaged(&cycles, 2 * SMS * sizeof(long long)));
  CHECK(cudaMemset(data, 1, 2 * REGION));
  measure<4, 0>(data, cycles);
  measure<8, 1>(data, cycles);
  measure<4, 1>(data, cycles);
  measure<2, 1>(data, cycles);
  measure<3, 2>(data, cycles);
  measure<1, 1>(data, cycles);
  measure<1, 2>(data, cycles);
  measure<1, 4>(data, cycles);
  measure<0, 4>(data, cycles);
}
