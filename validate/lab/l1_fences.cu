// Which fences empty the L1 of an H100 or H200: lines are loaded, or loaded and stored to, a fence passes, and they are
// loaded again. A load of less than `HIT` cycles has hit.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 l1_fences.cu -o l1_fences
//   ./l1_fences > l1_fences.jsonl
//
// One CTA on an SM, four warps, 64 lines each.
#include <cstdio>
#include <cuda_runtime.h>
#include "check.cuh"

enum Fence { NONE, BARRIER, FENCE_CTA, FENCE_GPU, ASYNC, ASYNC_SHARED, WGMMA, ASYNC_BARRIER, FENCES };
const char *NAMES[] = {"none", "bar.sync", "fence.acq_rel.cta", "fence.acq_rel.gpu", "fence.proxy.async",
                       "fence.proxy.async.shared::cta", "wgmma.fence", "fence.proxy.async and bar.sync"};
constexpr int HIT = 120, LINES = 64, WARPS = 4;
struct Counts { long long hits, loads, cycles; };

template <int FENCE> __device__ __forceinline__ void fence() {
  if (FENCE == BARRIER || FENCE == ASYNC_BARRIER) asm volatile("bar.sync 0;" ::: "memory");
  if (FENCE == FENCE_CTA) asm volatile("fence.acq_rel.cta;" ::: "memory");
  if (FENCE == FENCE_GPU) asm volatile("fence.acq_rel.gpu;" ::: "memory");
  if (FENCE == ASYNC || FENCE == ASYNC_BARRIER) asm volatile("fence.proxy.async;" ::: "memory");
  if (FENCE == ASYNC_SHARED) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  if (FENCE == WGMMA) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  if (FENCE == ASYNC_BARRIER) asm volatile("bar.sync 0;" ::: "memory");
}

__device__ __forceinline__ unsigned load(const unsigned *at) {
  unsigned v;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}

template <int FENCE> __global__ void again(unsigned *data, int stores, Counts *counts) {
  __shared__ unsigned read[WARPS * 32];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned *lines = data + (blockIdx.x * WARPS + warp) * LINES * 32 + lane, found = 0;
  for (int line = 0; line < LINES; ++line) found += load(lines + line * 32);
  read[threadIdx.x] = found;
  __syncthreads();
  if (stores) for (int line = 0; line < LINES; ++line) asm volatile("st.global.u32 [%0], %1;" ::"l"(lines + line * 32), "r"(line) : "memory");
  fence<FENCE>();
  Counts sum{};
  for (int line = 0; line < LINES; ++line) {
    long long begin = clock64();
    read[threadIdx.x] = load(lines + line * 32);  // clock64 waits for what is stored
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(found) : "r"((unsigned)__cvta_generic_to_shared(read + threadIdx.x)) : "memory");
    read[threadIdx.x] += found;
    long long took = clock64() - begin;
    sum.hits += took < HIT;
    sum.loads += 1;
    sum.cycles += took;
  }
  if (lane == 0) {
    atomicAdd((unsigned long long *)&counts->hits, sum.hits);
    atomicAdd((unsigned long long *)&counts->loads, sum.loads);
    atomicAdd((unsigned long long *)&counts->cycles, sum.cycles);
  }
}

template <int FENCE> void measure(unsigned *data, Counts *counts, const char *gpu) {
  for (int stores = 0; stores < 2; ++stores)
    for (int repeat = 0; repeat < 3; ++repeat) {
      *counts = {};
      again<FENCE><<<16, WARPS * 32>>>(data, stores, counts);
      CHECK(cudaDeviceSynchronize());
      printf("{\"gpu\": \"%s\", \"fence\": \"%s\", \"stored\": %d, \"hit_share\": %.4f, \"cycles\": %.1f}\n", gpu,
             NAMES[FENCE], stores, (double)counts->hits / counts->loads, (double)counts->cycles / counts->loads);
    }
}

int main() {
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  unsigned *data;
  Counts *counts;
  CHECK(cudaMalloc(&data, 16 * WARPS * LINES * 128));
  CHECK(cudaMallocHost(&counts, sizeof(Counts)));
  measure<NONE>(data, counts, device.name);
  measure<BARRIER>(data, counts, device.name);
  measure<FENCE_CTA>(data, counts, device.name);
  measure<FENCE_GPU>(data, counts, device.name);
  measure<ASYNC>(data, counts, device.name);
  measure<ASYNC_SHARED>(data, counts, device.name);
  measure<WGMMA>(data, counts, device.name);
  measure<ASYNC_BARRIER>(data, counts, device.name);
}
