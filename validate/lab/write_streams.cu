// What streams of stores take: over arrays that L2 holds, and does not hold, by how much a warp stores at once.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 write_streams.cu -o write_streams
//   ./write_streams > write_streams.jsonl
//
// A launch stores 512 MiB, going over an array of `array` bytes again and again. `lane`: bytes that a lane stores at once; `off`: bytes by which the
// array lies off a line; `cta`: bytes of a CTA of 128 threads. plus: y = x + 1, out of place or in place, twice as many bytes.
// cold: behind a write of 256 MB, the median of 5; warm: the mean of 10 in a row.
#include <algorithm>
#include <cstdio>
#include <cuda_runtime.h>
#include "check.cuh"

constexpr size_t MIB = 1 << 20, TOTAL = 512 * MIB;
constexpr int RUNS = 5, REPEATS = 10;

template <class T, int EACH> __global__ void fill(T *data, size_t blocks) {
  T *at = data + (blockIdx.x % blocks) * EACH * 128 + threadIdx.x;
#pragma unroll
  for (int i = 0; i < EACH; ++i) at[i * 128] = T{};
}

template <class T, int EACH> __global__ void plus(const T *x, T *y, size_t blocks) {
  size_t at = (blockIdx.x % blocks) * EACH * 128 + threadIdx.x;
  T kept[EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) kept[i] = x[at + i * 128];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    ((unsigned char *)(kept + i))[0]++;
    y[at + i * 128] = kept[i];
  }
}

char *other;
cudaEvent_t begin, end;
template <class Launch> void measure(const char *kind, size_t array, int lane, int off, int cta, Launch launch) {
  float us[RUNS], warm;
  for (int run = 0; run < RUNS; ++run) {
    CHECK(cudaMemsetAsync(other, run, 256 * MIB));
    CHECK(cudaEventRecord(begin));
    launch();
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaGetLastError());
    CHECK(cudaEventElapsedTime(us + run, begin, end));
  }
  std::sort(us, us + RUNS);
  CHECK(cudaEventRecord(begin));
  for (int run = 0; run < REPEATS; ++run) launch();
  CHECK(cudaEventRecord(end));
  CHECK(cudaEventSynchronize(end));
  CHECK(cudaEventElapsedTime(&warm, begin, end));
  printf("{\"program\": \"write_streams\", \"kind\": \"%s\", \"array\": %zu, \"lane\": %d, \"off\": %d, \"cta\": %d, \"cold_us\": %.3f, \"warm_us\": %.3f}\n", kind, array, lane, off, cta,
         us[RUNS / 2] * 1e3f, warm * 1e3f / REPEATS);
}

template <class T, int EACH> void fills(char *data, size_t array) {
  size_t part = sizeof(T) * EACH * 128, ctas = TOTAL / part, blocks = array / part;
  for (int off : {0, (int)sizeof(T), 32}) {
    if (off && (array == 96 * MIB || array == 16 * MIB)) continue;
    measure("fill", array, sizeof(T), off, part, [&] { fill<T, EACH><<<ctas, 128>>>((T *)(data + off), blocks); });
  }
}

template <class T, int EACH> void copies(char *x, char *y, size_t array) {
  size_t part = sizeof(T) * EACH * 128, ctas = TOTAL / part, blocks = array / part;
  measure("in place", array, sizeof(T), 0, part, [&] { plus<T, EACH><<<ctas, 128>>>((T *)x, (T *)x, blocks); });
  for (int from : {0, 1})
    for (int to : {0, 1}) {
      if ((from || to) && array != 256 * MIB) continue;
      const char *kind = from ? to ? "copy, both off" : "copy, source off" : to ? "copy, target off" : "copy";
      measure(kind, array, sizeof(T), from || to ? sizeof(T) : 0, part,
              [&] { plus<T, EACH><<<ctas, 128>>>((T *)(x + from * sizeof(T)), (T *)(y + to * sizeof(T)), blocks); });
    }
}

int main() {
  char *x, *y;
  CHECK(cudaMalloc(&x, TOTAL + MIB));
  CHECK(cudaMalloc(&y, TOTAL + MIB));
  CHECK(cudaMalloc(&other, 256 * MIB));
  CHECK(cudaMemset(x, 0, TOTAL));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (size_t array : {8 * MIB, 16 * MIB, 24 * MIB, 48 * MIB, 96 * MIB, 512 * MIB}) {
    fills<unsigned short, 8>(x, array);
    fills<float, 8>(x, array);
    fills<float2, 4>(x, array);
    fills<float4, 4>(x, array);
    fills<float4, 16>(x, array);
  }
  for (size_t array : {8 * MIB, 12 * MIB, 16 * MIB, 24 * MIB, 32 * MIB, 64 * MIB, 256 * MIB}) {
    copies<unsigned short, 8>(x, y, array);
    copies<float, 8>(x, y, array);
    copies<float4, 4>(x, y, array);
  }
}
