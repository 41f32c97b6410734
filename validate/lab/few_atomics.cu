// What atomics at few addresses take, of all kinds: one lane of a warp or all of them, with and without what was there, and in order.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 few_atomics.cu -o few_atomics
//   ./few_atomics > few_atomics.jsonl
//
// Each warp does `per_warp` atomics, each at word (warp + i) % `places`, which lie `apart` words from each other.
// `lanes`: that take part; they go to one word, or (`along`) to neighbouring words of a line.
// tickets: each CTA does one, of one thread, and stores what it was given.
#include <cstdio>
#include <cuda_runtime.h>
#include "check.cuh"

enum Op { RED_I32, RED_MAX, ATOM_I32, ATOM_MAX, CAS, EXCH, RED_I64, ATOM_I64, RED_F32, ATOM_F32, RED_BF16X2, RED_BF16, RED_F64, ATOM_ORDERED, RED_ORDERED, OPS };
const char *OP[] = {"red s32", "red max s32", "atom s32", "atom max s32", "cas b32", "exch b32", "red u64", "atom u64", "red f32", "atom f32", "red bf16x2", "red bf16", "red f64",
                    "atom s32 acq_rel", "red s32 acq_rel"};
constexpr int RUNS = 3;
__device__ int sink;

template <int O> __device__ __forceinline__ int act(char *at, int value) {
  int old = 0;
  float was = 0;
  unsigned long long wide = 0;
  if (O == RED_I32) asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
  if (O == RED_MAX) asm volatile("red.relaxed.gpu.global.max.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
  if (O == ATOM_I32) asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  if (O == ATOM_MAX) asm volatile("atom.relaxed.gpu.global.max.s32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  if (O == CAS) asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;" : "=r"(old) : "l"(at), "r"(value), "r"(value + 1) : "memory");
  if (O == EXCH) asm volatile("atom.relaxed.gpu.global.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  if (O == RED_I64) asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(at), "l"((unsigned long long)value) : "memory");
  if (O == ATOM_I64) asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(wide) : "l"(at), "l"((unsigned long long)value) : "memory");
  if (O == RED_F32) asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(at), "f"(1.0f) : "memory");
  if (O == ATOM_F32) asm volatile("atom.relaxed.gpu.global.add.f32 %0, [%1], %2;" : "=f"(was) : "l"(at), "f"(1.0f) : "memory");
  if (O == RED_BF16X2) asm volatile("red.relaxed.gpu.global.add.noftz.bf16x2 [%0], %1;" ::"l"(at), "r"(0x3f803f80) : "memory");
  if (O == RED_BF16) asm volatile("red.relaxed.gpu.global.add.noftz.bf16 [%0], %1;" ::"l"(at), "h"((short)0x3f80) : "memory");
  if (O == RED_F64) asm volatile("red.relaxed.gpu.global.add.f64 [%0], %1;" ::"l"(at), "d"(1.0) : "memory");
  if (O == ATOM_ORDERED) asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(value) : "memory");
  if (O == RED_ORDERED) asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
  return old + (int)was + (int)wide;
}

template <int O> __global__ void acts(char *data, unsigned places, unsigned apart, unsigned lanes, int along, int per_warp) {
  unsigned lane = threadIdx.x % 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, word = O == RED_I64 || O == ATOM_I64 || O == RED_F64 ? 8 : O == RED_BF16 ? 2 : 4;
  int sum = 0;
  if (lane < lanes)
    for (int i = 0; i < per_warp; ++i)
      sum += act<O>(data + ((size_t)((warp + i) % places) * apart + (along ? lane : 0)) * word, (int)(warp + i + lane));
  if (sum == 0x12345678) sink = sum;
}

template <int O> __global__ void tickets(char *data, int *out, unsigned places, unsigned apart) {
  if (threadIdx.x == 0) out[blockIdx.x] = act<O>(data + (size_t)(blockIdx.x % places) * apart * 4, 1);
}
__global__ void stamps(int *out) {
  if (threadIdx.x == 0) out[blockIdx.x] = blockIdx.x;
}

cudaEvent_t begin, end;
template <class Launch> float best_us(Launch launch) {
  float best = 1e30f;
  for (int run = 0; run < RUNS; ++run) {
    float ms;
    CHECK(cudaEventRecord(begin));
    launch();
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaGetLastError());
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    best = ms < best ? ms : best;
  }
  return best * 1e3f;
}

template <int O> void row(char *data, unsigned places, unsigned apart, unsigned lanes, int along, int ctas = 528, int per_warp = 16) {
  float us = best_us([&] { acts<O><<<ctas, 256>>>(data, places, apart, lanes, along, per_warp); });
  double warps = (double)ctas * 8 * per_warp;
  printf("{\"program\": \"few_atomics\", \"op\": \"%s\", \"places\": %u, \"apart\": %u, \"lanes\": %u, \"along\": %d, \"ctas\": %d, \"per_warp\": %d, \"warp_atomics\": %.0f, "
         "\"us\": %.3f, \"ns_a_warp\": %.4f}\n", OP[O], places, apart, lanes, along, ctas, per_warp, warps, us, us * 1e3 / warps);
}

template <int O> void rows(char *data) {
  for (unsigned lanes : {1u, 2u, 8u, 32u}) {
    row<O>(data, 1, 1, lanes, 0);
    if (lanes > 1) row<O>(data, 1, 1, lanes, 1);
  }
  for (unsigned places : {2u, 16u, 128u, 1024u})
    for (unsigned apart : {1u, 64u}) {
      row<O>(data, places, apart, 1, 0);
      if (apart == 64) row<O>(data, places, apart, 32, 0);
    }
  row<O>(data, 65536, 32, 32, 1);
  row<O>(data, 1, 1, 1, 0, 1);
  row<O>(data, 1, 1, 1, 0, 16);
}

template <int O> void ticket(char *data, int *out) {
  for (int threads : {32, 128})
    for (int ctas : {50000, 200000})
      for (unsigned apart : {0u, 1u, 64u}) {
        unsigned places = apart ? 132 : 1;
        float us = best_us([&] { tickets<O><<<ctas, threads>>>(data, out, places, apart); });
        printf("{\"program\": \"few_atomics\", \"op\": \"ticket %s\", \"places\": %u, \"apart\": %u, \"ctas\": %d, \"threads\": %d, \"us\": %.3f}\n", OP[O], places, apart, ctas, threads, us);
      }
}

int main() {
  char *data;
  int *out;
  CHECK(cudaMalloc(&data, (size_t)65536 * 32 * 8 + 4096));
  CHECK(cudaMemset(data, 0, (size_t)65536 * 32 * 8 + 4096));
  CHECK(cudaMalloc(&out, 1 << 20));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  rows<RED_I32>(data);
  rows<RED_MAX>(data);
  rows<ATOM_I32>(data);
  rows<ATOM_MAX>(data);
  rows<CAS>(data);
  rows<EXCH>(data);
  rows<RED_I64>(data);
  rows<ATOM_I64>(data);
  rows<RED_F32>(data);
  rows<ATOM_F32>(data);
  rows<RED_BF16X2>(data);
  rows<RED_BF16>(data);
  rows<RED_F64>(data);
  rows<ATOM_ORDERED>(data);
  rows<RED_ORDERED>(data);
  ticket<ATOM_I32>(data, out);
  ticket<ATOM_ORDERED>(data, out);
  for (int threads : {32, 128})
    for (int ctas : {50000, 200000}) {
      float us = best_us([&] { stamps<<<ctas, threads>>>(out); });
      printf("{\"program\": \"few_atomics\", \"op\": \"ticket none\", \"ctas\": %d, \"threads\": %d, \"us\": %.3f}\n", ctas, threads, us);
    }
}
