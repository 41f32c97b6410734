// What a load that hits L1 takes of it, by how many lanes of a warp load the same words, and how far apart others lie.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 l1_duplicates.cu -o l1_duplicates
//   ./l1_duplicates > l1_duplicates.ndjson
//
// Each line: cycles of an SM for each load of a warp, 16 warps on each SM; lane l loads `width` bytes at
// l / (32 / distinct) * stride, or at l % distinct * stride where `turns` is 1, of eight places that follow each other.
#include <cstdio>
#include <vector>
#include "check.cuh"

constexpr int SMS = 132, WARPS = 16, LOADS = 1 << 12, UNROLLED = 8;
__device__ unsigned sink;

template <int WIDTH> __device__ __forceinline__ unsigned load(const char *at) {
  unsigned a, b, c, d;
  if (WIDTH == 4) { asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(a) : "l"(at) : "memory"); return a; }
  if (WIDTH == 8) { asm volatile("ld.global.ca.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(at) : "memory"); return a ^ b; }
  asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(at) : "memory");
  return a ^ b ^ c ^ d;
}

template <int WIDTH> __global__ void loads(const char *data, int distinct, int stride, int turns, long moved,
                                           long long *took) {
  int lane = threadIdx.x % 32, which = turns ? lane % distinct : lane / (32 / distinct);
  const char *at = data + which * stride;
  unsigned found = 0;
  for (int j = 0; j < UNROLLED; ++j) found ^= load<WIDTH>(at + j * 4096);
  __syncthreads();
  long long begin = clock64();
  for (int i = 0; i < LOADS / UNROLLED; ++i, at += moved)  // by nothing, which the compiler does not know
#pragma unroll
    for (int j = 0; j < UNROLLED; ++j) found ^= load<WIDTH>(at + j * 4096);
  __syncthreads();
  if (threadIdx.x == 0) took[blockIdx.x] = clock64() - begin;
  if (found == 78) sink = found;
}

template <int WIDTH> void measure() {
  char *data;
  long long *took;
  CHECK(cudaMalloc(&data, 1 << 16));
  CHECK(cudaMemset(data, 0, 1 << 16));
  CHECK(cudaMalloc(&took, SMS * sizeof(long long)));
  for (int distinct : {1, 2, 4, 8, 16, 32})
    for (int turns : {0, 1})
      for (int stride : {WIDTH, 2 * WIDTH, 4 * WIDTH, 128}) {
        for (int round = 0; round < 2; ++round) {
          loads<WIDTH><<<SMS, 32 * WARPS>>>(data, distinct, stride, turns, 0, took);
          CHECK(cudaDeviceSynchronize());
        }
        std::vector<long long> got(SMS);
        CHECK(cudaMemcpy(got.data(), took, SMS * sizeof(long long), cudaMemcpyDeviceToHost));
        double total = 0;
        for (auto one : got) total += one;
        printf("{\"width\": %d, \"distinct\": %d, \"turns\": %d, \"stride\": %d, \"cycles\": %.3f}\n", WIDTH, distinct, turns,
               stride, total / SMS / LOADS / WARPS);
      }
}

int main() {
  measure<4>();
  measure<8>();
  measure<16>();
}
