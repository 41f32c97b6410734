// How fast an SM issues code that does not fit its instruction caches: straight code of so many
// instructions, gone through again and again by so many warps of each sub-core, which begin together
// or at places of their own.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 instruction_fetch.cu -o instruction_fetch
//   ./instruction_fetch > instruction_fetch.ndjson
//
// Each line: instructions that a sub-core issues a cycle, the mean over the SMs that run. A warp's arithmetic
// does not need what is four instructions before: a lone warp could issue one each cycle or two.
// `cores`: sub-cores that have warps (of a CTA; the others have none).
#include <cstdio>
#include <vector>
#include "check.cuh"

constexpr int SMS = 132, SUB_CORES = 4;
__device__ float sink;

#define F(i) "fma.rn.f32 %" #i ", %" #i ", %" #i ", %" #i ";"
#define F8 F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define F64 F8 F8 F8 F8 F8 F8 F8 F8

template <int LENGTH> __global__ void __launch_bounds__(1024, 2) straight(long long *spans, int apart, int times, int cores) {
  float v[8];
  for (int i = 0; i < 8; ++i) v[i] = threadIdx.x + i;
  int warp = threadIdx.x / 32 / SUB_CORES, warps = blockDim.x / 32 / SUB_CORES;
  if (threadIdx.x / 32 % SUB_CORES >= cores) return;
  __syncthreads();
  long long start = clock64();
  // One after the other, by the time that a lone warp needs for the code, or together.
  while (apart && clock64() - start < (long long)LENGTH * 2 * warp / warps) {}
#pragma unroll 1
  for (int i = 0; i < times; ++i) {
#pragma unroll
    for (int j = 0; j < LENGTH / 64; ++j)
      asm volatile(F64 : "+f"(v[0]), "+f"(v[1]), "+f"(v[2]), "+f"(v[3]), "+f"(v[4]), "+f"(v[5]), "+f"(v[6]), "+f"(v[7]));
  }
  long long done = clock64();
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += v[i];
  if (sum == 12345.5f) sink = sum;
  int sm;
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  if (threadIdx.x % 32 == 0) {
    atomicMin((unsigned long long *)&spans[2 * sm], (unsigned long long)start);
    atomicMax((unsigned long long *)&spans[2 * sm + 1], (unsigned long long)done);
  }
}

template <int LENGTH> void run(long long *spans, int sms, int warps, int apart, int cores) {
  std::vector<long long> got(2 * SMS);
  int ctas = warps > 8 ? 2 : 1, times = (1 << 16) / LENGTH < 2 ? 2 : (1 << 16) / LENGTH;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < SMS; ++i) got[2 * i] = ~0ll, got[2 * i + 1] = 0;
    CHECK(cudaMemcpy(spans, got.data(), got.size() * sizeof(long long), cudaMemcpyHostToDevice));
    straight<LENGTH><<<sms * ctas, 32 * SUB_CORES * warps / ctas>>>(spans, apart, times, cores);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(got.data(), spans, got.size() * sizeof(long long), cudaMemcpyDeviceToHost));
  }
  double total = 0, ran = 0;
  for (int i = 0; i < SMS; ++i)
    if (got[2 * i + 1]) total += got[2 * i + 1] - got[2 * i], ran += 1;
  printf("{\"instructions\": %d, \"warps\": %d, \"apart\": %d, \"sms\": %d, \"cores\": %d, \"ran\": %.0f, \"issued_per_cycle\": %.4f}\n", LENGTH,
         warps, apart, sms, cores, ran, double(LENGTH) * times * warps * ran / total);
}

template <int LENGTH> void measure() {
  long long *spans;
  CHECK(cudaMalloc(&spans, 2 * SMS * sizeof(long long)));
  for (int warps : {1, 2, 4, 8, 16})
    for (int apart : {0, 1}) run<LENGTH>(spans, SMS, warps, apart, 4);
  for (int warps : {1, 4}) {
    run<LENGTH>(spans, 1, warps, 0, 4);
    run<LENGTH>(spans, SMS, warps, 0, 1);
    run<LENGTH>(spans, SMS, warps, 0, 2);
  }
  CHECK(cudaFree(spans));
}

int main() {
  measure<512>();
  measure<1536>();
  measure<2560>();
  measure<3072>();
  measure<4096>();
  measure<6144>();
  measure<8192>();
  measure<9216>();
  measure<10240>();
  measure<12288>();
  measure<16384>();
  measure<24576>();
  measure<32768>();
  measure<65536>();
}
