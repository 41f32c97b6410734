// Why short kernels that nvcc compiles take an H200 longer than predicted. Three questions:
//   convert: how far apart a sub-core issues conversions and wide products, with 1 to 8 warps of it, beside others too;
//   start: the same of what CTAs begin with (special registers, constants at an index, dependent launch);
//   turn: what launches take whose CTAs of 4 to 32 warps hold all places of an SM, by bytes that a thread loads, by what it
//     computes, by whether it stores, elsewhere or in place.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 short_launches.cu -o short_launches
//   ./short_launches > short_launches.ndjson
//
// `cycles` of convert and start: of a sub-core, for one instruction of a warp and the one or two that go with it, less those
// of the same loop without it (`cuobjdump -sass short_launches` has both). `us` of turn: from event to event behind reads that
// leave L2 clean, the median of 21; `empty_us`: the same of a CTA for each SM that does next to nothing.
#include <algorithm>
#include <cuda_bf16.h>
#include <vector>
#include "check.cuh"

constexpr int SMS = 132, TIMES = 256, UNROLL = 16, RUNS = 21;
constexpr size_t FLUSH = (size_t)512 << 20;
__device__ unsigned sink;

enum Op { NOTHING, F2F_BF16, F2FP_BF16, F2F_F16, F2I, I2F, FRND, RCP, EX2, RCP_AND_BF16, WIDE, WIDE_TWO, S2R, LDC, WAIT, LAUNCH, OPS };
const char *OPS_SAID[] = {
  "nothing", "cvt.rn.bf16.f32", "cvt.rn.bf16x2.f32", "cvt.rn.f16.f32", "cvt.rni.s32.f32", "cvt.rp.f32.u32", "cvt.rni.f32.f32",
  "rcp.approx", "ex2.approx", "rcp.approx and cvt.rn.bf16.f32", "mul.wide.u32 and lop3.b32", "mul.wide.u32 and two lop3.b32", "%warpid", "ld.param at an index", "griddepcontrol.wait",
  "griddepcontrol.launch_dependents"};
struct Words { unsigned at[64]; };

template <int OP> __device__ unsigned one(unsigned v, const Words &words, int k) {
  if (OP == F2F_BF16 || OP == RCP_AND_BF16) asm volatile("{.reg .b16 h; cvt.rn.bf16.f32 h, %1; cvt.u32.u16 %0, h;}" : "=r"(v) : "f"(__uint_as_float(v)));
  if (OP == F2FP_BF16) asm volatile("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(v) : "f"(__uint_as_float(v)));
  if (OP == F2F_F16) asm volatile("{.reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.u32.u16 %0, h;}" : "=r"(v) : "f"(__uint_as_float(v)));
  if (OP == F2I) asm volatile("cvt.rni.s32.f32 %0, %1;" : "=r"(v) : "f"(__uint_as_float(v)));
  if (OP == I2F) asm volatile("{.reg .f32 f; cvt.rp.f32.u32 f, %1; mov.b32 %0, f;}" : "=r"(v) : "r"(v));
  if (OP == FRND) asm volatile("{.reg .f32 f; cvt.rni.f32.f32 f, %1; mov.b32 %0, f;}" : "=r"(v) : "f"(__uint_as_float(v)));
  if (OP == RCP || OP == RCP_AND_BF16) asm volatile("{.reg .f32 f; rcp.approx.ftz.f32 f, %1; mov.b32 %0, f;}" : "=r"(v) : "f"(__uint_as_float(v)));
  if (OP == EX2) asm volatile("{.reg .f32 f; ex2.approx.ftz.f32 f, %1; mov.b32 %0, f;}" : "=r"(v) : "f"(__uint_as_float(v)));
  if (OP == WIDE || OP == WIDE_TWO) asm volatile("{.reg .u64 w; .reg .u32 low, high; mul.wide.u32 w, %1, %2; mov.b64 {low, high}, w; lop3.b32 %0, low, high, %2, 0x96;}" : "=r"(v) : "r"(v), "r"(words.at[1]));
  if (OP == WIDE_TWO) asm volatile("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(v) : "r"(v), "r"(words.at[2]), "r"(words.at[3]));
  if (OP == S2R) asm volatile("{.reg .u32 t; mov.u32 t, %%warpid; add.u32 %0, %1, t;}" : "=r"(v) : "r"(v));
  if (OP == LDC) v += words.at[(v + k) & 63];
  if (OP == WAIT) asm volatile("griddepcontrol.wait;" ::: "memory");
  if (OP == LAUNCH) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  return v;
}

// Each warp goes on with UNROLL values of its own, so that an instruction waits for its result late.
template <int OP> __global__ void __launch_bounds__(1024) issue(long long *spans, unsigned seed, const Words words) {
  unsigned v[UNROLL];
  for (int k = 0; k < UNROLL; ++k) v[k] = OP == LDC ? seed : seed + (threadIdx.x << 4) + k;
  __syncthreads();
  long long start = clock64();
#pragma unroll 1
  for (int i = 0; i < TIMES; ++i)
#pragma unroll
    for (int k = 0; k < UNROLL; ++k) v[k] = one<OP>(v[k], words, k);
  long long spent = clock64() - start;
  unsigned sum = 0;
  for (int k = 0; k < UNROLL; ++k) sum += v[k];
  if (sum == 12345u) sink = sum;
  atomicMax((unsigned long long *)&spans[blockIdx.x], (unsigned long long)spent);
}

template <int OP> double cycles(long long *spans, int warps) {
  std::vector<long long> got(SMS);
  Words words{};
  for (int round = 0; round < 3; ++round) {
    CHECK(cudaMemset(spans, 0, SMS * sizeof(long long)));
    issue<OP><<<SMS, 128 * warps>>>(spans, 0x3f800000u, words);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got.data(), spans, SMS * sizeof(long long), cudaMemcpyDeviceToHost));
  }
  std::sort(got.begin(), got.end());
  return (double)got[SMS / 2] / TIMES / UNROLL / warps;
}

template <int OP> void say(long long *spans) {
  for (int warps : {1, 2, 4, 8})
    printf("{\"program\": \"%s\", \"what\": \"%s\", \"warps\": %d, \"cycles\": %.2f}\n", OP < S2R ? "convert" : "start",
           OPS_SAID[OP], warps, cycles<OP>(spans, warps) - cycles<NOTHING>(spans, warps));
}

__global__ void read_all(const uint4 *from, size_t n) {
  unsigned sum = 0;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) sum += __ldcg(&from[i]).x;
  if (sum == 12345u) sink = sum;
}

// LOADS words a thread, CHAIN multiplications that need each other, and one store, or none.
template <typename T, int LOADS, int STORES> __global__ void turn(const T *from, T *to, int chain, unsigned never) {
  size_t at = blockIdx.x * (size_t)blockDim.x * (LOADS ? LOADS : 1) + threadIdx.x;
  T v[LOADS + 1];
  unsigned sum = threadIdx.x;
#pragma unroll
  for (int k = 0; k < LOADS; ++k) v[k] = from[at + (size_t)k * blockDim.x];
#pragma unroll
  for (int k = 0; k < LOADS; ++k) sum += *(unsigned *)&v[k];
  for (int i = 0; i < chain; ++i) asm volatile("mad.lo.u32 %0, %0, %0, %1;" : "+r"(sum) : "r"(never));
  if (STORES) {
#pragma unroll
    for (int k = 0; k < LOADS; ++k) {
      *(unsigned *)&v[k] = sum + k;
      to[at + (size_t)k * blockDim.x] = v[k];
    }
  } else if (sum == never) {
    sink = sum;
  }
}

template <typename Launch> double median_us(const uint4 *flush, Launch launch) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> took;
  for (int i = 0; i < RUNS + 3; ++i) {
    read_all<<<1056, 512>>>(flush, FLUSH / 16);
    CHECK(cudaEventRecord(begin));
    launch();
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (i >= 3) took.push_back(ms * 1000);
  }
  std::sort(took.begin(), took.end());
  return took[RUNS / 2];
}

template <typename T, int LOADS, int STORES> void turns(const uint4 *flush, char *from, char *to, double empty) {
  for (int warps : {4, 8, 16, 32})
    for (int chain : {0, 64, 256})
      for (int mega : {32, 64, 256}) {
        int threads = 32 * warps, per = LOADS ? LOADS : 1;
        unsigned ctas = ((size_t)mega << 20) / (sizeof(T) * per * threads);
        double us = median_us(flush, [&] { turn<T, LOADS, STORES><<<ctas, threads>>>((T *)from, (T *)to, chain, 7u); });
        printf("{\"program\": \"turn\", \"bytes_a_thread\": %d, \"loads\": %d, \"stores\": %d, \"in_place\": %d, \"warps\": %d, "
               "\"chain\": %d, \"megabytes\": %d, \"ctas\": %u, \"us\": %.2f, \"empty_us\": %.2f}\n",
               (int)sizeof(T) * LOADS, LOADS, STORES, from == to, warps, chain, mega, ctas, us, empty);
      }
}

int main() {
  char *from, *to, *flush;
  long long *spans;
  CHECK(cudaMalloc(&from, (size_t)256 << 20));
  CHECK(cudaMalloc(&to, (size_t)256 << 20));
  CHECK(cudaMalloc(&flush, FLUSH));
  CHECK(cudaMalloc(&spans, SMS * sizeof(long long)));
  CHECK(cudaMemset(from, 0, (size_t)256 << 20));
  CHECK(cudaMemset(flush, 0, FLUSH));
  say<F2F_BF16>(spans), say<F2FP_BF16>(spans), say<F2F_F16>(spans), say<F2I>(spans), say<I2F>(spans), say<FRND>(spans);
  say<RCP>(spans), say<EX2>(spans), say<RCP_AND_BF16>(spans), say<WIDE>(spans), say<WIDE_TWO>(spans), say<S2R>(spans), say<LDC>(spans), say<WAIT>(spans), say<LAUNCH>(spans);
  const uint4 *clean = (const uint4 *)flush;
  double empty = median_us(clean, [&] { turn<unsigned, 0, 0><<<SMS, 128>>>((unsigned *)from, (unsigned *)to, 0, 7u); });
  turns<unsigned, 0, 0>(clean, from, to, empty);
  turns<unsigned, 1, 0>(clean, from, to, empty), turns<unsigned, 1, 1>(clean, from, to, empty), turns<unsigned, 1, 1>(clean, from, from, empty);
  turns<unsigned, 4, 1>(clean, from, to, empty), turns<unsigned, 4, 1>(clean, from, from, empty);
  turns<uint4, 1, 0>(clean, from, to, empty), turns<uint4, 1, 1>(clean, from, to, empty), turns<uint4, 1, 1>(clean, from, from, empty);
}
