// Whether L1 keeps rows that lie a stride apart as well as rows that lie together: each SM loads so many pieces of rows,
// and then all of them again; or CTAs load tiles, four times, each time a row further, as convolutions do.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 l1_strides.cu -o l1_strides
//   ./l1_strides > l1_strides.ndjson
//   ncu --csv --page raw --print-units base --clock-control none --cache-control none \
//       --metrics l1tex__m_xbar2l1tex_read_bytes.sum ./l1_strides > l1_strides.csv
//
// A line for each launch, in order: what it loads. What it fetches is counted by ncu.
#include <cstdio>
#include "check.cuh"

constexpr int SMS = 132, THREADS = 256;
__device__ unsigned sink;

// `sweeps` times the same pieces of `width` bytes, 4 B a thread.
__global__ void again(const char *data, size_t of_sm, size_t stride, int rows, int width, int sweeps) {
  const char *own = data + blockIdx.x * of_sm;
  unsigned found = 0;
  int lanes = width / 4;
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    for (int i = threadIdx.x; i < rows * lanes; i += THREADS) {
      unsigned v;
      asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(own + i / lanes * stride + i % lanes * 4) : "memory");
      found += v;
    }
    __syncthreads();
  }
  if (found == 77) sink = found;
}

// Tiles of `ROWS` rows side by side and one below the other, a CTA each; its rows are loaded TAPS times, a row further down
// each time.
constexpr int ROWS = 64, TAPS = 4;
__global__ void taps(const char *data, size_t stride, int width, int together) {
  const char *own = data + (size_t)blockIdx.y * ROWS * stride + blockIdx.x * width;
  unsigned found = 0;
  int lanes = width / 4;
  for (int tap = 0; tap < TAPS; ++tap) {
    for (int i = threadIdx.x; i < ROWS * lanes; i += THREADS) {
      unsigned v;
      const char *at = own + (size_t)(tap + i / lanes) * stride + i % lanes * 4;
      asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
      if (together) found ^= v;
      else if (v == 78) found += 1;  // waits for each
    }
  }
  if (found == 77) sink = found;
}

int main() {
  char *data;
  constexpr size_t ALL = (size_t)20 << 30;
  CHECK(cudaMalloc(&data, ALL));
  const size_t strides[] = {128,  256,  512,   1024,  1536,  2048,  3072,  4096,  4224, 4608,
                            5120, 6144, 8192, 12288, 16384, 24576, 32768, 65536, 98304};
  for (int width : {128, 64, 32})
    for (size_t stride : strides)
      for (int rows : {256, 512, 768, 1024, 1280, 1536}) {
        size_t of_sm = ((size_t)rows * stride + 4095) / 4096 * 4096 + 128;
        if (of_sm * SMS > ALL) continue;
        printf("{\"kernel\": \"again\", \"width\": %d, \"stride\": %zu, \"rows\": %d}\n", width, stride, rows);
        again<<<SMS, THREADS>>>(data, of_sm, stride, rows, width, 2);
      }
  for (int width : {64, 128, 256})
    for (size_t stride : {1024, 4096, 8192, 24576})
      for (int together : {0, 1}) {
        printf("{\"kernel\": \"taps\", \"width\": %d, \"stride\": %zu, \"together\": %d}\n", width, stride, together);
        taps<<<dim3(stride / width, 64), THREADS>>>(data, stride, width, together);
      }
  CHECK(cudaDeviceSynchronize());
}
