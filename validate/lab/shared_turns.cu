// What SHFL, LDS, STS and BAR take an SM where all its warps issue them, each kind alone and in turns;
// and what reductions at L2 take where many CTAs add to the same addresses.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 shared_turns.cu -o shared_turns
//   ./shared_turns > shared_turns.ndjson
//
// Lines with "body": cycles of an SM for each warp that runs the body once, the mean over the SMs,
// with so many CTAs of four warps on each. Idle accesses are those that no lane takes part in.
// Lines with "rows": time of a kernel whose warps add 16 times to rows of 32 addresses, which warps
// share in turn, by so many lanes of each warp; and that of a kernel that adds nothing.
#include <algorithm>
#include <cstdio>
#include <vector>
#include "check.cuh"

constexpr int SMS = 132, THREADS = 128, WARPS = THREADS / 32;
constexpr int TIMES = 256;

__device__ float sink;

template <int SHUFFLES, int LOADS, int STORES, int BARRIERS, int IDLE_LOADS, int IDLE_STORES>
__global__ void turns(long long *spans) {
  __shared__ float words[THREADS];
  unsigned at = __cvta_generic_to_shared(&words[threadIdx.x]);
  float x = threadIdx.x;
  int never = threadIdx.x >> 10;  // 0, which the compiler does not know
  words[threadIdx.x] = x;
  __syncthreads();
  long long start = clock64();
#pragma unroll 1
  for (int i = 0; i < TIMES; ++i) {
#pragma unroll
    for (int j = 0; j < SHUFFLES; ++j)
      asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+f"(x));
#pragma unroll
    for (int j = 0; j < LOADS; ++j) {
      float y;  // added: what nobody needs falls away
      asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(y) : "r"(at));
      x += y;
    }
#pragma unroll
    for (int j = 0; j < STORES; ++j) asm volatile("st.volatile.shared.f32 [%0], %1;" ::"r"(at), "f"(x));
#pragma unroll
    for (int j = 0; j < IDLE_LOADS; ++j)
      asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; @p ld.volatile.shared.f32 %0, [%1];}"
                   : "+f"(x) : "r"(at), "r"(never));
#pragma unroll
    for (int j = 0; j < IDLE_STORES; ++j)
      asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; @p st.volatile.shared.f32 [%0], %1;}"
                   ::"r"(at), "f"(x), "r"(never));
#pragma unroll
    for (int j = 0; j < BARRIERS; ++j) asm volatile("bar.sync 0;" ::: "memory");
  }
  long long done = clock64();
  int sm;
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x == 0) {
    atomicMin((unsigned long long *)&spans[2 * sm], (unsigned long long)start);
    atomicMax((unsigned long long *)&spans[2 * sm + 1], (unsigned long long)done);
  }
  if (x == 12345.5f) sink = x;
}

template <int S, int L, int W, int B, int IL = 0, int IS = 0> void measure() {
  long long *spans;
  CHECK(cudaMalloc(&spans, 2 * SMS * sizeof(long long)));
  for (int ctas : {1, 2, 4, 8, 16}) {
    size_t dynamic = (200 << 10) / ctas - 2048;  // so that no more share an SM
    CHECK(cudaFuncSetAttribute(turns<S, L, W, B, IL, IS>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)dynamic));
    std::vector<long long> got(2 * SMS);
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < SMS; ++i) got[2 * i] = ~0ll, got[2 * i + 1] = 0;
      CHECK(cudaMemcpy(spans, got.data(), got.size() * sizeof(long long), cudaMemcpyHostToDevice));
      turns<S, L, W, B, IL, IS><<<SMS * ctas, THREADS, dynamic>>>(spans);
      CHECK(cudaDeviceSynchronize());
      CHECK(cudaMemcpy(got.data(), spans, got.size() * sizeof(long long), cudaMemcpyDeviceToHost));
    }
    double total = 0;
    for (int i = 0; i < SMS; ++i) total += got[2 * i + 1] - got[2 * i];
    printf("{\"body\": {\"SHFL\": %d, \"LDS\": %d, \"STS\": %d, \"BAR\": %d, \"idle_LDS\": %d, \"idle_STS\": %d}, "
           "\"ctas\": %d, \"cycles_per_warp\": %.3f}\n", S, L, W, B, IL, IS, ctas,
           total / SMS / TIMES / ctas / WARPS);
  }
  CHECK(cudaFree(spans));
}

// Each warp adds to 32 addresses in a row, `lanes` of its lanes taking part; rows take turns CTA by CTA.
__global__ void adds(float *sums, int rows, int lanes, int times) {
  int row = (blockIdx.x * WARPS + threadIdx.x / 32) % rows, lane = threadIdx.x % 32;
  for (int i = 0; i < times; ++i)
    if (lane < lanes) asm volatile("red.global.add.f32 [%0], %1;" ::"l"(sums + 32 * row + lane), "f"(1.0f));
}

void measure_adds(float *sums, int rows, int lanes) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  float best[2] = {1e9f, 1e9f};
  const int ctas = SMS * 16;
  for (int round = 0; round < 8; ++round)
    for (int adding = 0; adding < 2; ++adding) {
      CHECK(cudaEventRecord(begin));
      adds<<<ctas, THREADS>>>(sums, rows, lanes, 16 * adding);
      CHECK(cudaEventRecord(end));
      CHECK(cudaEventSynchronize(end));
      float ms;
      CHECK(cudaEventElapsedTime(&ms, begin, end));
      best[adding] = std::min(best[adding], ms);
    }
  printf("{\"rows\": %d, \"lanes\": %d, \"reductions\": %d, \"us\": %.3f, \"idle_us\": %.3f}\n", rows, lanes,
         ctas * WARPS * 16, best[1] * 1e3, best[0] * 1e3);
}

int main() {
  measure<4, 4, 4, 0>();
  measure<4, 4, 4, 4>();
  measure<8, 0, 0, 0>();
  measure<0, 8, 0, 0>();
  measure<0, 0, 8, 0>();
  measure<0, 0, 0, 8>();
  measure<4, 4, 0, 0>();
  measure<4, 0, 4, 0>();
  measure<0, 4, 4, 0>();
  measure<4, 0, 0, 4>();
  measure<0, 4, 0, 4>();
  measure<0, 0, 4, 4>();
  measure<0, 0, 0, 0, 8, 0>();
  measure<0, 0, 0, 0, 0, 8>();
  measure<12, 7, 7, 8>();
  measure<12, 5, 5, 8, 2, 2>();
  float *sums;
  CHECK(cudaMalloc(&sums, 1 << 22));
  CHECK(cudaMemset(sums, 0, 1 << 22));
  for (int lanes : {1, 8, 32})
    for (int rows : {1, 2, 4, 16, 64, 256, 1024, 8192}) measure_adds(sums, rows, lanes);
}
