// What L2 keeps where loads and stores carry eviction policies, as Triton's eviction_policy gives them.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 eviction.cu -o eviction
//   ncu --clock-control none --cache-control none --csv --page raw --print-units base \
//       --metrics dram__bytes_read.sum,dram__bytes_write.sum,gpu__time_duration.sum ./eviction
//
// 1,056 CTAs, all there at once. `rounds` times each reads its part of a set, the same each time, then its part of a stream, new each time.
// Or writes its part of the stream. The launch before empties L2 by a read of 256 MB.
#include <cstdio>
#include <cuda_runtime.h>
#include "check.cuh"

enum Policy { NONE, FIRST, LAST, STREAMING, UNCHANGED, POLICIES };
const char *POLICY[] = {"", "evict_first", "evict_last", ".cs", "no_allocate"};
constexpr int CTAS = 1056, THREADS = 128, ROUNDS = 3;
constexpr size_t MIB = 1 << 20, PART = (size_t)CTAS * THREADS * 16;
__device__ float sink;

template <int P> __device__ __forceinline__ float load(const char *at) {
  float a, b, c, d;
  unsigned long long how = 0;
  if (P == FIRST) asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(how));
  if (P == LAST) asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(how));
  if (P == NONE) asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(at));
  if (P == STREAMING) asm volatile("ld.global.cs.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(at));
  if (P == UNCHANGED) asm volatile("ld.global.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(at));
  if (P == FIRST)
    asm volatile("ld.global.L1::evict_first.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(at), "l"(how));
  if (P == LAST)
    asm volatile("ld.global.L1::evict_last.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(at), "l"(how));
  return a + b + c + d;
}

template <int P> __device__ __forceinline__ void store(char *at, float a) {
  unsigned long long how = 0;
  if (P == FIRST) asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(how));
  if (P == LAST) asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(how));
  if (P == NONE) asm volatile("st.global.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(at), "f"(a) : "memory");
  if (P == STREAMING) asm volatile("st.global.cs.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(at), "f"(a) : "memory");
  if (P == FIRST || P == LAST) asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %1, %1, %1}, %2;" ::"l"(at), "f"(a), "l"(how) : "memory");
}

template <int KEEP, int PASS, bool WRITES> __global__ void rounds(const char *set, char *stream, int a, int b) {
  float sum = 0;
  size_t mine = ((size_t)blockIdx.x * THREADS + threadIdx.x) * 16;
  for (int r = 0; r < ROUNDS; ++r) {
    for (int k = 0; k < a; ++k) sum += load<KEEP>(set + k * PART + mine);
    for (int k = 0; k < b; ++k) {
      char *at = stream + ((size_t)r * b + k) * PART + mine;
      if (WRITES) store<PASS>(at, (float)k);
      else sum += load<PASS>(at);
    }
  }
  if (sum == 7e30f) sink = sum;
}

__global__ void empty(const float4 *other, size_t words) {
  float sum = 0;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words; i += (size_t)gridDim.x * blockDim.x) sum += __ldcg(other + i).x;
  if (sum == 7e30f) sink = sum;
}

char *set, *stream, *other;

template <int KEEP, int PASS, bool WRITES> void row(int a, int b) {
  CHECK(cudaCtxResetPersistingL2Cache());  // what evict_last has kept stays, else, past any stream
  empty<<<1056, 256>>>((const float4 *)other, 256 * MIB / 16);
  rounds<KEEP, PASS, WRITES><<<CTAS, THREADS>>>(set, stream, a, b);
  CHECK(cudaDeviceSynchronize());
  printf("{\"program\": \"eviction\", \"keep\": \"%s\", \"pass\": \"%s\", \"writes\": %d, \"set\": %zu, \"stream\": %zu, \"rounds\": %d}\n", POLICY[KEEP], POLICY[PASS], WRITES, a * PART,
         b * PART, ROUNDS);
}

int main() {
  CHECK(cudaMalloc(&set, 64 * PART));
  CHECK(cudaMalloc(&stream, 512 * PART));
  CHECK(cudaMalloc(&other, 256 * MIB));
  CHECK(cudaMemset(set, 0, 64 * PART));
  CHECK(cudaMemset(stream, 0, 512 * PART));
  CHECK(cudaMemset(other, 0, 256 * MIB));
  for (int a : {4, 7, 10, 13, 16, 20, 26})  // parts of 2.16 MB
    for (int b : {8, 64}) {
      row<NONE, NONE, false>(a, b);
      row<NONE, FIRST, false>(a, b);
      row<FIRST, FIRST, false>(a, b);
      row<NONE, STREAMING, false>(a, b);
      row<NONE, UNCHANGED, false>(a, b);
      if (a % 2) continue;
      row<NONE, NONE, true>(a, b);
      row<NONE, FIRST, true>(a, b);
      row<NONE, STREAMING, true>(a, b);
    }
  for (int a : {4, 10, 16, 20})
    for (int b : {8, 64}) {
      row<LAST, FIRST, false>(a, b);
      row<LAST, NONE, false>(a, b);
      row<LAST, NONE, true>(a, b);
    }
}
