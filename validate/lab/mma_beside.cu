// What a warp's matmul (mma.sync, HMMA m16n8k16 with sums in 32 bits) takes from other instructions of its
// sub-core, and they from it: the register port, issue slots, or nothing.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 mma_beside.cu -o mma_beside
//   ./mma_beside > mma_beside.jsonl
//
// Each line on stdout is a measurement: cycles that a sub-core takes for one matmul and the `others` that follow it
// in the code of every warp (`mixed`), or that follow 32 matmuls all together (`phases`), or that other warps
// issue as fast as they can (`apart`: cycles a matmul, and instructions of the others a cycle).
// One CTA on each of 132 SMs; `warps` of a sub-core run; nothing waits for the result of a matmul less than
// 16 matmuls old. FFMA3 reads three registers, the others one or two (what stays in the cache of operands not counted).
#include <cstdio>
#include <vector>
#include "check.cuh"

enum Op { FFMA3, IMAD, HFMA2, SHFL, FFMA, FMUL, FADD, FMNMX, LOP3, F2FP, MUFU };
const char *OPS[] = {"FFMA3", "IMAD", "HFMA2", "SHFL", "FFMA", "FMUL", "FADD", "FMNMX", "LOP3", "F2FP", "MUFU"};
enum Order { MIXED, PHASES, APART };
const char *ORDERS[] = {"mixed", "phases", "apart"};

constexpr int SMS = 132, SUB_CORES = 4, MOST = 4, SUMS = 16, VALUES = 16, TIMES = 256, MMAS = 32;
constexpr float NEVER = 12345;  // a sum that does not occur

struct Count { long long cycles, mmas, others; };
__device__ float sink;
__shared__ volatile int stop;

__device__ __forceinline__ void mma(float *d, const unsigned *a, const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <Op OP> __device__ __forceinline__ void other(float &v, float c, float d, const float *w, int i) {
  if (OP == FFMA3) asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(v) : "f"(w[i % 8]), "f"(w[(i + 3) % 8]));
  if (OP == FFMA) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(v) : "f"(c), "f"(d));
  if (OP == IMAD) {
    unsigned whole = __float_as_uint(v);
    asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(whole) : "r"(__float_as_uint(c)), "r"(__float_as_uint(d)));
    v = __uint_as_float(whole);
  }
  if (OP == HFMA2) {
    unsigned pair = __float_as_uint(v);
    asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(pair) : "r"(__float_as_uint(c)), "r"(__float_as_uint(d)));
    v = __uint_as_float(pair);
  }
  if (OP == SHFL) asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+f"(v));
  if (OP == FMUL) asm volatile("mul.rn.f32 %0, %0, %1;" : "+f"(v) : "f"(c));
  if (OP == FADD) asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(v) : "f"(c));
  if (OP == FMNMX) asm volatile("max.f32 %0, %0, %1;" : "+f"(v) : "f"(c));
  if (OP == LOP3) asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+f"(v) : "f"(c), "f"(d));
  if (OP == F2FP) asm volatile("{.reg .b32 t; cvt.rn.f16x2.f32 t, %0, %1; mov.b32 %0, t;}" : "+f"(v) : "f"(c));
  if (OP == MUFU) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(v));
}

template <Op OP, int K, Order ORDER> __global__ void __launch_bounds__(MOST * SUB_CORES * 32, 1)
beside(int warps, unsigned zero, float c, float d, Count *counts) {
  int warp = threadIdx.x / 32, rank = warp / SUB_CORES;
  float sums[SUMS][4], v[VALUES], w[8];
  c += zero * threadIdx.x, d += zero * threadIdx.x;  // a register for each lane
  unsigned a[2][4], b[4][2];
  for (int i = 0; i < SUMS * 4; ++i) sums[i / 4][i % 4] = c * i;
  for (int i = 0; i < VALUES; ++i) v[i] = c + i, w[i % 8] = d * i;
  for (int i = 0; i < 8; ++i) a[i / 4][i % 4] = zero * (threadIdx.x + i), b[i / 2][i % 2] = zero * (threadIdx.x * 3 + i);
  if (threadIdx.x == 0) stop = 0;
  __syncthreads();
  long long start = clock64(), mmas = 0, others = 0;
  if (ORDER == APART && rank > 0) {
    while (!stop) {
#pragma unroll
      for (int j = 0; j < 4 * VALUES; ++j) other<OP>(v[j % VALUES], c, d, w, j);
      others += 4 * VALUES;
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < TIMES; ++i) {
#pragma unroll
      for (int j = 0; j < MMAS; ++j) {
        mma(sums[j % SUMS], a[j / 16], b[j % 4]);
        if (ORDER == MIXED)
#pragma unroll
          for (int k = 0; k < K; ++k) other<OP>(v[(j * K + k) % VALUES], c, d, w, j * K + k);
      }
      if (ORDER == PHASES)
#pragma unroll
        for (int k = 0; k < K * MMAS; ++k) other<OP>(v[k % VALUES], c, d, w, k);
      mmas += MMAS, others += ORDER == APART ? 0 : K * MMAS;
    }
    if (ORDER == APART) stop = 1;
  }
  Count count{clock64() - start, mmas, others};
  float sum = 0;
  for (int i = 0; i < SUMS * 4; ++i) sum += sums[i / 4][i % 4];
  for (int i = 0; i < VALUES; ++i) sum += v[i];
  if (sum == NEVER) sink = sum;
  if (threadIdx.x % 32 == 0) counts[blockIdx.x * MOST * SUB_CORES + warp] = count;
}

Count *counts;

template <Op OP, int K, Order ORDER> void measure() {
  for (int warps : {1, 2, 3, 4}) {
    if (ORDER == APART && warps == 1) continue;
    std::vector<Count> result(SMS * MOST * SUB_CORES);
    for (int i = 0; i < 2; ++i) beside<OP, K, ORDER><<<SMS, warps * SUB_CORES * 32>>>(warps, 0, 1, 0, counts);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(result.data(), counts, sizeof(Count) * result.size(), cudaMemcpyDefault));
    double cycles = 0, rate = 0;
    int n = 0;
    for (int sm = 0; sm < SMS; ++sm)
      for (int warp = 0; warp < warps * SUB_CORES; ++warp) {
        Count one = result[sm * MOST * SUB_CORES + warp];
        if (ORDER == APART && warp >= SUB_CORES) { rate += (double)one.others / one.cycles; continue; }
        cycles += (double)one.cycles / one.mmas / (ORDER == APART ? 1 : warps), ++n;
      }
    printf("{\"order\": \"%s\", \"beside\": \"%s\", \"others\": %d, \"warps\": %d, \"cycles_per_mma\": %.3f, "
           "\"others_per_cycle\": %.4f}\n", ORDERS[ORDER], OPS[OP], ORDER == APART ? 0 : K, warps, cycles / n,
           ORDER == APART ? rate / (SMS * SUB_CORES) : K / (cycles / n));
  }
}

template <Op OP> void all() {
  measure<OP, 1, MIXED>(), measure<OP, 2, MIXED>(), measure<OP, 4, MIXED>(), measure<OP, 6, MIXED>();
  measure<OP, 8, MIXED>(), measure<OP, 12, MIXED>();
  measure<OP, 2, PHASES>(), measure<OP, 4, PHASES>(), measure<OP, 8, PHASES>();
  measure<OP, 0, APART>();
}

int main() {
  CHECK(cudaMalloc(&counts, sizeof(Count) * SMS * MOST * SUB_CORES));
  measure<FFMA, 0, MIXED>();
  all<FFMA3>(), all<IMAD>(), all<HFMA2>(), all<SHFL>(), all<FFMA>(), all<FMUL>(), all<FADD>(), all<FMNMX>(), all<LOP3>(), all<F2FP>(), all<MUFU>();
}
