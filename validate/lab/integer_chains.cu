// What integer and FP64 operations take that need each other: a warp alone, and eight of a sub-core.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 chains.cu -o chains
//   ./chains > chains.ndjson
//
// Each line: cycles from one operation to the next that needs it (a warp), or of a sub-core for each (more warps).
#include <cstdio>
#include <vector>
#include "check.cuh"

enum Op { MAD64, MUL64, ADD64, MAD32, MULWIDE, MADWIDE, MULHI64, MULHI32, FMA64, SHL64, MAD64LOW, DIV32, DIV64, REM32 };
const char *OPS[] = {"mad.lo.s64", "mul.lo.s64", "add.s64", "mad.lo.s32", "mul.wide.u32", "mad.wide.u32", "mul.hi.u64", "mul.hi.u32", "fma.f64", "shl.b64", "mad.lo.u64 of u32", "div.s32", "div.s64", "rem.u32"};
constexpr int SMS = 132, TIMES = 512;
__device__ unsigned long long sink;

template <Op OP> __device__ __forceinline__ void one(unsigned long long &v, unsigned long long c) {
  unsigned w = (unsigned)v, e = (unsigned)c;
  if (OP == MAD64) asm volatile("mad.lo.s64 %0, %0, %1, %1;" : "+l"(v) : "l"(c));
  if (OP == MUL64) asm volatile("mul.lo.s64 %0, %0, %1;" : "+l"(v) : "l"(c));
  if (OP == ADD64) asm volatile("add.s64 %0, %0, %1;" : "+l"(v) : "l"(c));
  if (OP == SHL64) asm volatile("shl.b64 %0, %0, %1;" : "+l"(v) : "r"(e));
  if (OP == MULHI64) asm volatile("mul.hi.u64 %0, %0, %1;" : "+l"(v) : "l"(c));
  if (OP == MAD32) { asm volatile("mad.lo.s32 %0, %0, %1, %1;" : "+r"(w) : "r"(e)); v = w; }
  if (OP == MULHI32) { asm volatile("mul.hi.u32 %0, %0, %1;" : "+r"(w) : "r"(e)); v = w; }
  if (OP == DIV32) { asm volatile("div.s32 %0, %0, %1;" : "+r"(w) : "r"(e)); v = w; }
  if (OP == REM32) { asm volatile("rem.u32 %0, %0, %1;" : "+r"(w) : "r"(e)); v = w; }
  if (OP == DIV64) asm volatile("div.s64 %0, %0, %1;" : "+l"(v) : "l"(c));
  if (OP == MULWIDE) asm volatile("mul.wide.u32 %0, %1, %2;" : "=l"(v) : "r"(w), "r"(e));
  if (OP == MADWIDE) asm volatile("mad.wide.u32 %0, %1, %2, %0;" : "+l"(v) : "r"(w), "r"(e));
  if (OP == MAD64LOW) v = v * (unsigned long long)e + c;
  if (OP == FMA64) { double d = __longlong_as_double(v); asm volatile("fma.rn.f64 %0, %0, %1, %1;" : "+d"(d) : "d"(__longlong_as_double(c))); v = __double_as_longlong(d); }
}

template <Op OP, int CHAINS> __global__ void chain(long long *spans, unsigned long long c) {
  unsigned long long v[CHAINS];
  for (int i = 0; i < CHAINS; ++i) v[i] = threadIdx.x + c * (i + 1);
  c |= threadIdx.x;
  __syncthreads();
  long long start = clock64();
#pragma unroll 1
  for (int i = 0; i < TIMES / 32; ++i)
#pragma unroll
    for (int k = 0; k < 32 / CHAINS; ++k)
#pragma unroll
      for (int j = 0; j < CHAINS; ++j) one<OP>(v[j], c);
  unsigned long long sum = 0;
  for (int i = 0; i < CHAINS; ++i) sum += v[i];
  if (sum == 1234567) sink = sum;
  long long done = clock64();
  int sm;
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x % 32 == 0) {
    atomicMin((unsigned long long *)&spans[2 * sm], (unsigned long long)start);
    atomicMax((unsigned long long *)&spans[2 * sm + 1], (unsigned long long)done);
  }
}

template <Op OP, int CHAINS> void run(long long *spans, int warps) {
  std::vector<long long> got(2 * SMS);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < SMS; ++i) got[2 * i] = ~0ll, got[2 * i + 1] = 0;
    CHECK(cudaMemcpy(spans, got.data(), got.size() * sizeof(long long), cudaMemcpyHostToDevice));
    chain<OP, CHAINS><<<SMS, 128 * warps>>>(spans, 3);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(got.data(), spans, got.size() * sizeof(long long), cudaMemcpyDeviceToHost));
  }
  double total = 0;
  for (int i = 0; i < SMS; ++i) total += got[2 * i + 1] - got[2 * i];
  printf("{\"op\": \"%s\", \"warps\": %d, \"chains\": %d, \"cycles\": %.3f}\n", OPS[OP], warps, CHAINS, total / SMS / TIMES / warps);
}

template <Op OP> void measure(long long *spans) {
  run<OP, 1>(spans, 1);
  run<OP, 2>(spans, 1);
  run<OP, 4>(spans, 1);
  run<OP, 4>(spans, 4);
  run<OP, 4>(spans, 8);
}

int main() {
  long long *spans;
  CHECK(cudaMalloc(&spans, 2 * SMS * sizeof(long long)));
  measure<MAD64>(spans);
  measure<MUL64>(spans);
  measure<ADD64>(spans);
  measure<MAD32>(spans);
  measure<MULWIDE>(spans);
  measure<MADWIDE>(spans);
  measure<MULHI64>(spans);
  measure<MULHI32>(spans);
  measure<FMA64>(spans);
  measure<SHL64>(spans);
  measure<MAD64LOW>(spans);
  measure<DIV32>(spans);
  measure<DIV64>(spans);
  measure<REM32>(spans);
}
