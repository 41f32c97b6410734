// How CTAs follow each other on an SM: when each warp begins, has its data, and ends, by warps of a CTA.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 cta_turns.cu -o cta_turns
//   ./cta_turns > cta_turns.ndjson
//
// Each thread loads words and stores as many (or none, or neither), after `chain` multiplications that need each other; places
// of an SM are full. Words come from HBM, or from 8 MiB that L2 holds; they go to 64 MiB, or to 8 MiB that L2 holds.
// Clocks of the SM itself [cycles], of CTAs in the middle of the launch on SMs 0 and 1, each since the first of them:
//   us: of a whole launch that notes no clocks, from event to event, the median of nine;
//   cta, sm; warps: for each warp of the CTA its clock at the begin, when its data are there, and in front of its exit.
#include <algorithm>
#include <cstdio>
#include <vector>
#include "check.cuh"

constexpr size_t FLUSH = (size_t)512 << 20;
struct Clocks { long long begin, loaded, end; unsigned sm, cta; };
__device__ unsigned sink;

__global__ void read_all(const uint4 *from, size_t n) {
  unsigned sum = 0;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) sum += __ldcg(&from[i]).x;
  if (sum == 12345u) sink = sum;
}

__device__ unsigned sum_of(unsigned v) { return v; }
__device__ unsigned sum_of(uint4 v) { return v.x + v.y + v.z + v.w; }
__device__ void fill(unsigned &v, unsigned by) { v = by; }
__device__ void fill(uint4 &v, unsigned by) { v.x = by; }

// Words of 4 or 16 B. Masks: of indices, less than a power of two.
template <typename T, int LOADS, int STORES, bool LOG> __global__ void turn(const T *from, T *to, Clocks *log, int chain, unsigned factor, size_t from_mask, size_t to_mask) {
  long long begin = LOG ? clock64() : 0;
  size_t at = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  T word{};
  if (LOADS) word = __ldcg(&from[at & from_mask]);
  unsigned v = sum_of(word);
  asm volatile("mad.lo.u32 %0, %0, %1, %1;" : "+r"(v) : "r"(factor));
  long long loaded = LOG ? clock64() : 0;
  for (int i = 0; i < chain; ++i) asm volatile("mad.lo.u32 %0, %0, %0, %1;" : "+r"(v) : "r"(factor));
  fill(word, v);
  if (STORES) to[at & to_mask] = word;
  else if (v == 12345u) sink = v;
  if (!LOG) return;
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  if (sm < 2 && threadIdx.x % 32 == 0) {
    size_t warp = blockIdx.x * (size_t)(blockDim.x / 32) + threadIdx.x / 32;
    log[warp] = {begin, loaded, clock64(), sm, blockIdx.x};
  }
}

template <typename T, int LOADS, int STORES> void turns(const uint4 *flush, char *from, char *to, Clocks *log, size_t from_bytes, size_t to_bytes) {
  cudaEvent_t started, ended;
  CHECK(cudaEventCreate(&started));
  CHECK(cudaEventCreate(&ended));
  for (int warps : {1, 2, 4, 8, 16, 32}) {
    unsigned ctas = ((size_t)64 << 20) / (sizeof(T) * 32 * warps);
    if (ctas > 200000) ctas = 200000;
    size_t count = (size_t)ctas * warps;
    CHECK(cudaMemset(log, 0, count * sizeof(Clocks)));
    read_all<<<1056, 512>>>(flush, FLUSH / 16);
    if (from_bytes < FLUSH / 16) read_all<<<1056, 512>>>((uint4 *)from, from_bytes / 16);
    size_t from_mask = from_bytes / sizeof(T) - 1, to_mask = to_bytes / sizeof(T) - 1;
    turn<T, LOADS, STORES, true><<<ctas, 32 * warps>>>((T *)from, (T *)to, log, 0, 7u, from_mask, to_mask);
    CHECK(cudaGetLastError());
    std::vector<Clocks> got(count);
    CHECK(cudaMemcpy(got.data(), log, count * sizeof(Clocks), cudaMemcpyDeviceToHost));
    std::vector<float> took;
    for (int i = 0; i < 9; ++i) {
      read_all<<<1056, 512>>>(flush, FLUSH / 16);
      if (from_bytes < FLUSH / 16) read_all<<<1056, 512>>>((uint4 *)from, from_bytes / 16);
      CHECK(cudaEventRecord(started));
      turn<T, LOADS, STORES, false><<<ctas, 32 * warps>>>((T *)from, (T *)to, log, 0, 7u, from_mask, to_mask);
      CHECK(cudaEventRecord(ended));
      CHECK(cudaEventSynchronize(ended));
      float ms;
      CHECK(cudaEventElapsedTime(&ms, started, ended));
      took.push_back(ms * 1000);
    }
    std::sort(took.begin(), took.end());
    printf("{\"word\": %d, \"loads\": %d, \"from_mib\": %d, \"stores\": %d, \"to_mib\": %d, \"warps_a_cta\": %d, \"ctas\": %u, \"us\": %.2f}\n",
           (int)sizeof(T), LOADS, (int)(from_bytes >> 20), STORES, (int)(to_bytes >> 20), warps, ctas, took[4]);
    for (unsigned sm : {0u, 1u}) {
      std::vector<unsigned> mine;
      for (unsigned c = ctas / 3; c < ctas; ++c)
        if (got[(size_t)c * warps].end && got[(size_t)c * warps].sm == sm) mine.push_back(c);
      size_t keep = std::min<size_t>(mine.size(), 24 + 640 / warps);
      long long zero = got[(size_t)mine[0] * warps].begin;
      for (size_t k = 0; k < keep; ++k) {
        printf("{\"word\": %d, \"loads\": %d, \"from_mib\": %d, \"stores\": %d, \"to_mib\": %d, \"warps_a_cta\": %d, \"sm\": %u, \"cta\": %u, \"warps\": [",
               (int)sizeof(T), LOADS, (int)(from_bytes >> 20), STORES, (int)(to_bytes >> 20), warps, sm, mine[k]);
        for (int w = 0; w < warps; ++w) {
          Clocks &c = got[(size_t)mine[k] * warps + w];
          printf("%s[%lld, %lld, %lld]", w ? ", " : "", c.begin - zero, c.loaded - zero, c.end - zero);
        }
        printf("]}\n");
      }
    }
  }
}

template <typename T> void all_turns(const uint4 *flush, char *from, char *to, Clocks *log) {
  constexpr size_t LARGE = (size_t)64 << 20, SMALL = (size_t)8 << 20;
  for (size_t source : {LARGE, SMALL}) {
    turns<T, 1, 0>(flush, from, to, log, source, LARGE);
    turns<T, 1, 1>(flush, from, to, log, source, LARGE);
    turns<T, 1, 1>(flush, from, to, log, source, SMALL);
  }
}

int main() {
  char *from, *to;
  uint4 *flush;
  Clocks *log;
  CHECK(cudaMalloc(&from, (size_t)64 << 20));
  CHECK(cudaMalloc(&to, (size_t)64 << 20));
  CHECK(cudaMalloc(&flush, FLUSH));
  CHECK(cudaMalloc(&log, ((size_t)1 << 20) * sizeof(Clocks)));
  CHECK(cudaMemset(from, 0, (size_t)64 << 20));
  CHECK(cudaMemset(flush, 0, FLUSH));
  turns<unsigned, 0, 0>(flush, from, to, log, 64 << 20, 64 << 20);
  all_turns<unsigned>(flush, from, to, log);
  all_turns<uint4>(flush, from, to, log);
}
