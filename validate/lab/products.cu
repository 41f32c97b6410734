// How fast a warp's matmuls (mma.sync) are by type: cycles of a sub-core from one to the next, and from one to the next
// that adds to its sum.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 products.cu -o products
//   ./products > products.ndjson
//
// Each line: cycles of a sub-core for a matmul, where each warp has `sums` of them to add to in turn.
#include <cstdio>
#include <vector>
#include "check.cuh"

enum Kind { F64_884, F64_1684, F64_1688, F64_16816, S8_16832, S8_16816, F16_F16, F16_F32, BF16, TF32, TF32_1684, FP8 };
const char *KINDS[] = {"f64.m8n8k4", "f64.m16n8k4", "f64.m16n8k8", "f64.m16n8k16", "s8.m16n8k32", "s8.m16n8k16",
                       "f16.f16.m16n8k16", "f16.f32.m16n8k16", "bf16.m16n8k16", "tf32.m16n8k8", "tf32.m16n8k4", "e4m3.m16n8k32"};
constexpr int SMS = 132, TIMES = 512;
__device__ double sink;

#define D2 "+d"(d[0]), "+d"(d[1])
#define D4 "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
#define R4 "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3])
#define S4 "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
#define ABD "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3])
#define ABR "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1])

template <Kind KIND> __device__ __forceinline__ void mma(double *d, float *f, unsigned *r, const double *a, const double *b, const unsigned *x, const unsigned *y) {
  if (KIND == F64_884) asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%10},{%0,%1};" : D2 : ABD);
  if (KIND == F64_1684) asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5},{%12},{%0,%1,%2,%3};" : D4 : ABD);
  if (KIND == F64_1688) asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5,%6,%7},{%12,%13},{%0,%1,%2,%3};" : D4 : ABD);
  if (KIND == F64_16816) asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5,%6,%7,%8,%9,%10,%11},{%12,%13,%14,%15},{%0,%1,%2,%3};" : D4 : ABD);
  if (KIND == S8_16832) asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};" : R4 : ABR);
  if (KIND == S8_16816) asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5},{%8},{%0,%1,%2,%3};" : R4 : ABR);
  if (KIND == F16_F16) asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1},{%4,%5,%6,%7},{%8,%9},{%0,%1};" : R4 : ABR);
  if (KIND == F16_F32) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};" : S4 : ABR);
  if (KIND == BF16) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};" : S4 : ABR);
  if (KIND == TF32) asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};" : S4 : ABR);
  if (KIND == TF32_1684) asm volatile("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5},{%8},{%0,%1,%2,%3};" : S4 : ABR);
  if (KIND == FP8) asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};" : S4 : ABR);
}

template <Kind KIND, int SUMS> __global__ void product(long long *spans, unsigned zero) {
  double d[SUMS][4], a[8], b[4];
  float f[SUMS][4];
  unsigned r[SUMS][4], x[4], y[2];
  for (int i = 0; i < SUMS; ++i) for (int j = 0; j < 4; ++j) d[i][j] = threadIdx.x, f[i][j] = threadIdx.x, r[i][j] = zero;
  for (int i = 0; i < 8; ++i) a[i] = zero * i;
  for (int i = 0; i < 4; ++i) b[i] = zero * i, x[i] = zero * i;
  y[0] = y[1] = zero;
  __syncthreads();
  long long start = clock64();
#pragma unroll 1
  for (int i = 0; i < TIMES / SUMS; ++i)
#pragma unroll
    for (int j = 0; j < SUMS; ++j) mma<KIND>(d[j], f[j], r[j], a, b, x, y);
  double sum = 0;
  for (int i = 0; i < SUMS; ++i) for (int j = 0; j < 4; ++j) sum += d[i][j] + f[i][j] + r[i][j];
  if (sum == 12345.5) sink = sum;
  long long done = clock64();
  int sm;
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x % 32 == 0) {
    atomicMin((unsigned long long *)&spans[2 * sm], (unsigned long long)start);
    atomicMax((unsigned long long *)&spans[2 * sm + 1], (unsigned long long)done);
  }
}

template <Kind KIND, int SUMS> void run(long long *spans, int warps) {
  std::vector<long long> got(2 * SMS);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < SMS; ++i) got[2 * i] = ~0ll, got[2 * i + 1] = 0;
    CHECK(cudaMemcpy(spans, got.data(), got.size() * sizeof(long long), cudaMemcpyHostToDevice));
    product<KIND, SUMS><<<SMS, 128 * warps>>>(spans, 0);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(got.data(), spans, got.size() * sizeof(long long), cudaMemcpyDeviceToHost));
  }
  double total = 0;
  for (int i = 0; i < SMS; ++i) total += got[2 * i + 1] - got[2 * i];
  printf("{\"kind\": \"%s\", \"warps\": %d, \"sums\": %d, \"cycles\": %.3f}\n", KINDS[KIND], warps, SUMS, total / SMS / TIMES / warps);
}

template <Kind KIND> void measure(long long *spans) {
  for (int warps : {1, 2, 4}) {
    run<KIND, 1>(spans, warps);
    run<KIND, 2>(spans, warps);
    run<KIND, 4>(spans, warps);
    run<KIND, 8>(spans, warps);
  }
}

int main() {
  long long *spans;
  CHECK(cudaMalloc(&spans, 2 * SMS * sizeof(long long)));
  measure<F64_884>(spans);
  measure<F64_1684>(spans);
  measure<F64_1688>(spans);
  measure<F64_16816>(spans);
  measure<S8_16832>(spans);
  measure<S8_16816>(spans);
  measure<F16_F16>(spans);
  measure<F16_F32>(spans);
  measure<BF16>(spans);
  measure<TF32>(spans);
  measure<TF32_1684>(spans);
  measure<FP8>(spans);
}
