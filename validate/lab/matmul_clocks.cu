// The clock of the SMs under matmuls of a warp by type, and under arithmetic: cycles over nanoseconds, in a launch of 0.3 to 1 ms.
#include <cstdio>
#include "check.cuh"
__device__ double sink;
#define ABD "d"(a), "d"(a), "d"(a), "d"(a), "d"(a), "d"(a), "d"(a), "d"(a), "d"(a), "d"(a), "d"(a), "d"(a)
template <int KIND> __global__ void work(unsigned long long *out, int times, unsigned zero) {
  double d[4][4]; float f[4][4]; unsigned x = zero + threadIdx.x; double a = zero;
  for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) d[i][j] = threadIdx.x, f[i][j] = threadIdx.x;
  unsigned long long ns, ns2; long long c = clock64();
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  for (int t = 0; t < times; ++t)
    for (int i = 0; i < 4; ++i) {
      if (KIND == 0) asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5,%6,%7,%8,%9,%10,%11},{%12,%13,%14,%15},{%0,%1,%2,%3};" : "+d"(d[i][0]), "+d"(d[i][1]), "+d"(d[i][2]), "+d"(d[i][3]) : ABD);
      if (KIND == 1) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%4,%4,%4},{%4,%4},{%0,%1,%2,%3};" : "+f"(f[i][0]), "+f"(f[i][1]), "+f"(f[i][2]), "+f"(f[i][3]) : "r"(x));
      if (KIND == 2) asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%4,%4,%4},{%4,%4},{%0,%1,%2,%3};" : "+r"(*(unsigned *)&f[i][0]), "+r"(*(unsigned *)&f[i][1]), "+r"(*(unsigned *)&f[i][2]), "+r"(*(unsigned *)&f[i][3]) : "r"(x));
      if (KIND == 3) for (int j = 0; j < 4; ++j) asm volatile("fma.rn.f64 %0, %0, %1, %1;" : "+d"(d[i][j]) : "d"(a));
      if (KIND == 4) for (int j = 0; j < 4; ++j) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(f[i][j]) : "f"((float)a));
    }
  double sum = 0;
  for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) sum += d[i][j] + f[i][j];
  if (sum == 12345.5) sink = sum;
  long long c2 = clock64();
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns2));
  if (threadIdx.x == 0) out[2 * blockIdx.x] = c2 - c, out[2 * blockIdx.x + 1] = ns2 - ns;
}
template <int KIND> void run(const char *name, int times) {
  unsigned long long *out, got[2 * 132];
  CHECK(cudaMalloc(&out, sizeof got));
  for (int r = 0; r < 3; ++r) { work<KIND><<<132, 512>>>(out, times, 0); CHECK(cudaDeviceSynchronize()); }
  CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
  double c = 0, n = 0; for (int i = 0; i < 132; ++i) c += got[2 * i], n += got[2 * i + 1];
  printf("{\"kind\": \"%s\", \"ghz\": %.4f, \"us\": %.1f}\n", name, c / n, n / 132 / 1000);
}
int main() { run<0>("dmma", 600); run<1>("hmma", 6000); run<2>("imma", 6000); run<3>("dfma", 3000); run<4>("ffma", 8000); run<0>("dmma", 6000); }
