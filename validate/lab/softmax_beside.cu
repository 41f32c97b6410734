// What the arithmetic of a softmax takes while other warpgroups keep the tensor cores busy with tile products, by
// instruction and in the order of attention; and what it takes from the products.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 softmax_beside.cu -o softmax_beside
//   ./softmax_beside > softmax_beside.jsonl
//
// Each line on stdout is a measurement: `cycles` of an instruction of each of the first `mixing` warpgroups, which have a warp
// on each sub-core, until the warpgroup is done; `cycles_per_product` of an SM, of the `multiplying` warpgroups behind them,
// which make rows of 16 products and await each row. Instructions that need each other are eight apart in the source;
// ptxas orders them anew, but for single kinds.
// One CTA on each of 132 SMs.
#include <cstdio>
#include <vector>
#include "check.cuh"
#include "wgmma.cuh"

constexpr int SMS = 132, VALUES = 32, TIMES = 512, ROW = 16, MOST = 4;
constexpr int TILES = 24 << 10;  // shared memory of A (64 x 64) and B (128 x 64)
constexpr float NEVER = 12345;   // a sum that does not occur

enum Mix { EX2, FFMA, FFMA3, FMUL, FADD, FMNMX, F2FP, LOP, FFMA_EX2, EX2_FADD, EX2_F2FP, EX2_3FFMA, PHASES, WOVEN, NOTHING };
const char *SAID[] = {"EX2", "FFMA of one register and two that stay", "FFMA of three registers", "FMUL", "FADD of two registers",
  "FMNMX of two registers", "F2FP of two registers", "LOP3 of one register", "FFMA and EX2 in turn", "EX2 and FADD in turn",
  "two EX2 and F2FP", "EX2 and three FFMA", "softmax in phases", "softmax in turn", "nothing"};

struct Count { long long cycles, issued; };
extern __shared__ __align__(1024) char memory[];
__device__ float sink;
__shared__ volatile int stop;

// Whether any thread of a warpgroup says so: its four warps go on or end together, as products need all of them.
__device__ bool any_of_group(int group, bool said) {
  unsigned any;
  asm volatile("{.reg .pred p, q; setp.ne.u32 p, %2, 0; barrier.cta.red.or.pred q, %1, 128, p; selp.u32 %0, 1, 0, q;}"
               : "=r"(any) : "r"(group + 1), "r"((unsigned)said) : "memory");
  return any;
}

struct Values { float v[VALUES], w[VALUES], m[8], c, d; };

__device__ __forceinline__ void ex2(Values &x, int i) { asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x.v[i])); }
__device__ __forceinline__ void ffma(Values &x, int i) {
  asm volatile("fma.rn.ftz.f32 %0, %0, %1, %2;" : "+f"(x.v[i]) : "f"(x.c), "f"(x.d));
}
__device__ __forceinline__ void ffma3(Values &x, int i) {
  asm volatile("fma.rn.ftz.f32 %0, %1, %2, %0;" : "+f"(x.v[i]) : "f"(x.w[i]), "f"(x.w[(i + 5) % VALUES]));
}
__device__ __forceinline__ void fmul(Values &x, int i) { asm volatile("mul.rn.ftz.f32 %0, %0, %1;" : "+f"(x.v[i]) : "f"(x.c)); }
__device__ __forceinline__ void fadd(Values &x, int i) { asm volatile("add.rn.ftz.f32 %0, %0, %1;" : "+f"(x.m[i % 8]) : "f"(x.v[i])); }
__device__ __forceinline__ void fmnmx(Values &x, int i) { asm volatile("max.ftz.f32 %0, %0, %1;" : "+f"(x.m[i % 8]) : "f"(x.v[i])); }
__device__ __forceinline__ void f2fp(Values &x, int i) {
  unsigned pair;
  asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(x.v[i]), "f"(x.v[i + 1]));
  x.v[i] = __uint_as_float(pair);
}
__device__ __forceinline__ void lop(Values &x, int i) {
  unsigned u = __float_as_uint(x.v[i]);
  asm volatile("xor.b32 %0, %0, 0x55;" : "+r"(u));
  x.v[i] = __uint_as_float(u);
}

// Issues the instructions of a round over all values. Returns: how many.
template <Mix MIX> __device__ __forceinline__ int round_of(Values &x) {
  int n = 0;
#pragma unroll
  for (int i = 0; i < VALUES; ++i) {
    int behind = (i + VALUES - 8) % VALUES;
    if (MIX == EX2) ex2(x, i), n += 1;
    if (MIX == FFMA) ffma(x, i), n += 1;
    if (MIX == FFMA3) ffma3(x, i), n += 1;
    if (MIX == FMUL) fmul(x, i), n += 1;
    if (MIX == FADD) fadd(x, i), n += 1;
    if (MIX == FMNMX || MIX == PHASES || MIX == WOVEN) fmnmx(x, i), n += 1;
    if (MIX == F2FP && i % 2 == 0) f2fp(x, i), n += 1;
    if (MIX == LOP) lop(x, i), n += 1;
    if (MIX == FFMA_EX2) ffma(x, i), ex2(x, behind), n += 2;
    if (MIX == EX2_FADD) ex2(x, i), fadd(x, behind), n += 2;
    if (MIX == EX2_F2FP) { ex2(x, i), n += 1; if (i % 2) f2fp(x, (i + VALUES - 9) % VALUES & ~1), n += 1; }
    if (MIX == EX2_3FFMA) ex2(x, i), ffma(x, (i + 8) % VALUES), ffma(x, (i + 16) % VALUES), ffma(x, (i + 24) % VALUES), n += 4;
  }
  if (MIX == PHASES) {
#pragma unroll
    for (int i = 0; i < VALUES; ++i) ffma(x, i), ex2(x, (i + VALUES - 8) % VALUES), n += 2;
#pragma unroll
    for (int i = 0; i < VALUES; ++i) fadd(x, i), n += 1;
#pragma unroll
    for (int i = 0; i < VALUES; i += 2) f2fp(x, i), n += 1;
  }
  if (MIX == WOVEN)
#pragma unroll
    for (int i = 0; i < VALUES; ++i) {
      ffma(x, i), ex2(x, (i + VALUES - 8) % VALUES), fadd(x, (i + VALUES - 16) % VALUES), n += 3;
      if (i % 2) f2fp(x, (i + VALUES - 24) % VALUES & ~1), n += 1;
    }
  return n;
}

template <Mix MIX, int N, bool A_SHARED>
__global__ void __launch_bounds__(MOST * 128, 1) beside(int mixing, int multiplying, float one, unsigned zero, Count *counts) {
  int group = threadIdx.x / 128;
  Count count{};
  if (threadIdx.x == 0) stop = 0;
  for (int i = threadIdx.x; i < TILES / 4; i += blockDim.x) ((int *)memory)[i] = 0;
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (group >= mixing) {
    unsigned a[4];
    float d[N / 2] = {}, sum = 0;
    for (int i = 0; i < 4; ++i) a[i] = zero * (threadIdx.x * 4 + i + 1);
    long long start = clock64(), done = 0;
#pragma unroll 1
    for (; mixing ? !any_of_group(group, stop) : done < 64 * 4 * ROW; done += 4 * ROW)
#pragma unroll 1
      for (int row = 0; row < 4; ++row) {
        begin_products();
        fence_registers<N / 2>(d);
#pragma unroll
        for (int i = 0; i < ROW; ++i) multiply_next<N, A_SHARED>(d, a, memory, i);
        end_products();
        fence_registers<N / 2>(d);
      }
    count = {clock64() - start, done};
    for (int i = 0; i < N / 2; ++i) sum += d[i];
    if (sum == NEVER) sink = sum;
  } else {
    Values x;
    x.c = one + zero * threadIdx.x, x.d = zero * threadIdx.x;
    for (int i = 0; i < VALUES; ++i) x.v[i] = x.c + i * zero, x.w[i] = x.c * i, x.m[i % 8] = x.c;
    long long start = clock64(), issued = 0;
#pragma unroll 1
    for (int i = 0; i < TIMES; ++i) issued += round_of<MIX>(x);
    count = {clock64() - start, issued};
    float sum = 0;
    for (int i = 0; i < VALUES; ++i) sum += x.v[i] + x.m[i % 8];
    if (sum == NEVER) sink = sum;
    stop = 1;
  }
  if (threadIdx.x % 32 == 0) counts[blockIdx.x * MOST * 4 + threadIdx.x / 32] = count;
}

Count *counts;

template <Mix MIX, int N, bool A_SHARED> void measure(int mixing, int multiplying) {
  auto kernel = beside<MIX, N, A_SHARED>;
  std::vector<Count> all(SMS * MOST * 4);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, TILES));
  for (int i = 0; i < 2; ++i) kernel<<<SMS, (mixing + multiplying) * 128, TILES>>>(mixing, multiplying, 1, 0, counts);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(all.data(), counts, sizeof(Count) * all.size(), cudaMemcpyDefault));
  double cycles[MOST] = {}, products = 0;
  for (int sm = 0; sm < SMS; ++sm)
    for (int warp = 0; warp < (mixing + multiplying) * 4; ++warp) {
      Count &one = all[sm * MOST * 4 + warp];
      if (warp < mixing * 4) cycles[warp / 4] += (double)one.cycles / one.issued / (SMS * 4);
      else products += (double)one.issued / one.cycles / (SMS * 4);
    }
  printf("{\"mix\": \"%s\", \"product\": \"m64n%dk16 %s\", \"multiplying\": %d, \"cycles_per_product\": %.2f, \"cycles\": [",
         SAID[MIX], N, A_SHARED ? "SS" : "RS", multiplying, products ? 1 / products : 0);
  for (int group = 0; group < mixing; ++group) printf(group ? ", %.3f" : "%.3f", cycles[group]);
  printf("]}\n");
}

template <Mix MIX, int N, bool A_SHARED> void at() {
  for (int multiplying : {1, 2})
    for (int mixing : {1, 2})
      if (MIX != NOTHING) measure<MIX, N, A_SHARED>(mixing, multiplying);
      else if (mixing == 1) measure<MIX, N, A_SHARED>(0, multiplying);
}

template <Mix MIX> void all() {
  if (MIX != NOTHING)
    for (int mixing : {1, 2, 3, 4}) measure<MIX, 64, true>(mixing, 0);
  at<MIX, 64, true>(), at<MIX, 64, false>(), at<MIX, 128, true>(), at<MIX, 128, false>();
}

int main() {
  CHECK(cudaMalloc(&counts, sizeof(Count) * SMS * MOST * 4));
  all<NOTHING>(), all<EX2>(), all<FFMA>(), all<FFMA3>(), all<FMUL>(), all<FADD>(), all<FMNMX>(), all<F2FP>(), all<LOP>();
  all<FFMA_EX2>(), all<EX2_FADD>(), all<EX2_F2FP>(), all<EX2_3FFMA>(), all<PHASES>(), all<WOVEN>();
}
