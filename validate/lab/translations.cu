// What translations of addresses take: how much memory the TLBs reach, and what misses in them take.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 translations.cu -o translations
//   ./translations > translations.jsonl
//
// One allocation of 110 GB, of zeros.
// chase: one thread goes round `pages` places that lie `stride` apart, in an order without pattern; the lines are in L2. Cycles a step.
// walk: the same over random lines of `footprint`, behind a write of 256 MB, and again.
// many: all warps of `ctas` CTAs load lines, four of each page, of random pages; the lines are in L2.
// gather: random rows of `row` bytes of `footprint` bytes, 134 MB of them, behind a write of 256 MB.
#include <algorithm>
#include <cstdio>
#include <cuda_runtime.h>
#include "check.cuh"

constexpr size_t BYTES = 110000000000ull / 4096 * 4096, MIB = 1 << 20;
constexpr int RUNS = 3, STEPS = 2048;
__device__ float sink;

__device__ __forceinline__ unsigned drawn(unsigned seed) {
  seed = (seed ^ seed >> 16) * 0x85ebca6bu;
  seed = (seed ^ seed >> 13) * 0xc2b2ae35u;
  return seed ^ seed >> 16;
}

// `pages` a power of two: a full period of a linear congruential generator.
__global__ void chase(const char *data, unsigned pages, size_t stride, unsigned warm, long long *cycles) {
  unsigned page = 1 % pages;
  long long start = 0;
  for (unsigned i = 0; i < warm + STEPS; ++i) {
    if (i == warm) start = clock64();
    const char *at = data + page * stride + drawn(page) % 16384 * 128;
    unsigned word;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(word) : "l"(at));
    page = (page * 1664525u + 1013904223u + word) & (pages - 1);
  }
  if (page == 0xffffffffu) sink = 1;
  *cycles = clock64() - start;
}

// The same over lines anywhere in `footprint`, each for the first time.
__global__ void walk(const char *data, size_t lines, unsigned at, long long *cycles) {
  long long start = clock64();
  for (unsigned i = 0; i < STEPS; ++i) {
    unsigned word;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(word) : "l"(data + ((size_t)drawn(at) * lines >> 32) * 128));
    at = at * 1664525u + 1013904223u + word;
  }
  if (at == 0xffffffffu) sink = 1;
  *cycles = clock64() - start;
}

__global__ void many(const char *data, unsigned pages, size_t stride, int rounds, unsigned salt) {
  unsigned lane = threadIdx.x % 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  float sum = 0;
#pragma unroll 4
  for (int i = 0; i < rounds; ++i) {
    unsigned page = (size_t)drawn((warp * rounds + i) * 2654435761u + salt) * pages >> 32;
    const char *at = data + page * stride + (drawn(page) + (warp + i) % 4 * 4099) % 16384 * 128 + lane * 4;
    float a;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(a) : "l"(at));
    sum += a;
  }
  if (sum == 7e30f) sink = sum;
}

__global__ void gather(const char *data, size_t places, unsigned row, unsigned salt) {
  unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, lanes = row / 16;
  float sum = 0;
  size_t at[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    unsigned group = (i * gridDim.x * blockDim.x + thread) / lanes;
    at[i] = ((size_t)drawn(group * 2654435761u + salt) * places >> 32) * row + thread % lanes * 16;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float a, b, c, d;
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(data + at[i]));
    sum += a + b + c + d;
  }
  if (sum == 7e30f) sink = sum;
}

int main() {
  char *data, *other;
  long long *cycles, *kept;
  cudaEvent_t begin, end;
  CHECK(cudaMalloc(&data, BYTES));
  CHECK(cudaMalloc(&other, 256 * MIB));
  CHECK(cudaMalloc(&cycles, 8));
  kept = (long long *)malloc(8);
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaMemset(data, 0, BYTES));
  for (size_t stride : {2 * MIB, 8 * MIB, 32 * MIB, 128 * MIB})
    for (unsigned pages = 1; pages * stride <= BYTES; pages *= 2) {
      chase<<<1, 1>>>(data, pages, stride, std::max(64u, std::min(2 * pages, 65536u)), cycles);
      CHECK(cudaMemcpy(kept, cycles, 8, cudaMemcpyDeviceToHost));
      printf("{\"program\": \"translations\", \"kind\": \"chase\", \"stride\": %zu, \"pages\": %u, \"cycles_a_step\": %.1f}\n", stride, pages, (double)*kept / STEPS);
    }
  for (size_t mib : {4ul, 64ul, 256ul, 512ul, 2048ul, 3072ul, 8192ul, 16384ul, 32768ul, 65536ul, 98304ul})
    for (int again : {0, 1}) {
      if (!again) CHECK(cudaMemset(other, 0, 256 * MIB));
      walk<<<1, 1>>>(data, mib * MIB / 128, mib, cycles);
      CHECK(cudaMemcpy(kept, cycles, 8, cudaMemcpyDeviceToHost));
      printf("{\"program\": \"translations\", \"kind\": \"walk\", \"footprint\": %zu, \"again\": %d, \"cycles_a_step\": %.1f}\n", mib * MIB, again, (double)*kept / STEPS);
    }
  for (size_t stride : {2 * MIB, 32 * MIB})
    for (int ctas : {1, 8, 132})
      for (unsigned pages = 32; pages * stride <= BYTES; pages *= 2) {
        for (int part : {2, 3}) {
          unsigned n = pages * part / 2;
          if (n * stride > BYTES || (part == 3 && ctas != 132)) continue;
          float best = 1e30f;
          int rounds = ctas == 132 ? 64 : 256;
          for (int run = 0; run < RUNS; ++run) {
            float ms;
            CHECK(cudaEventRecord(begin));
            many<<<ctas, 1024>>>(data, n, stride, rounds, run * 40503u);
            CHECK(cudaEventRecord(end));
            CHECK(cudaEventSynchronize(end));
            CHECK(cudaEventElapsedTime(&ms, begin, end));
            best = std::min(best, ms);
          }
          printf("{\"program\": \"translations\", \"kind\": \"many\", \"stride\": %zu, \"pages\": %u, \"ctas\": %d, \"requests\": %d, \"us\": %.3f}\n", stride, n, ctas,
                 ctas * 32 * rounds, best * 1e3f);
        }
      }
  for (unsigned row : {32u, 128u, 512u, 4096u, 65536u})
    for (size_t mib : {512ul, 2048ul, 4096ul, 6144ul, 12288ul, 16384ul, 20480ul, 24576ul, 40960ul, 49152ul, 65536ul, 81920ul, 98304ul}) {
      float us[RUNS];
      for (int run = 0; run < RUNS; ++run) {
        CHECK(cudaMemsetAsync(other, run, 256 * MIB));
        CHECK(cudaEventRecord(begin));
        gather<<<(1 << 27) / 16 / 4 / 128, 128>>>(data, mib * MIB / row, row, (run + mib) * 40503u);
        CHECK(cudaEventRecord(end));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaEventElapsedTime(us + run, begin, end));
      }
      std::sort(us, us + RUNS);
      printf("{\"program\": \"translations\", \"kind\": \"gather\", \"row\": %u, \"footprint\": %zu, \"us\": %.3f}\n", row, mib * MIB, us[RUNS / 2] * 1e3f);
    }
}
