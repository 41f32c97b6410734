// How fast an H200 takes stores of single elements: 2 B of each 16 B, eight stores for each 512 B of a row.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 narrow_stores.cu -o narrow_stores
//   ./narrow_stores > narrow_stores.jsonl
//
// CTAs of 8 warps take rows in turn, with barriers between, as row kernels do: a warp takes every eighth 512 B of a row.
// It stores them whole (`lines`), as words of 4 B in four stores (`words`), or as elements in eight (`elements`), and
// loads as much before, or not. Rows go to memory of their own, or over and over to 24 MiB, which L2 holds.
// Each line on stdout is a measurement: cycles of an SM for 512 B, until all have left, and bytes that all SMs store in
// a cycle. Everything runs twice, and the second run counts.
#include <cstdio>
#include <cstdlib>
#include "check.cuh"

enum Width { LINES, WORDS, ELEMENTS };
const char *WIDTHS[] = {"lines", "words", "elements"};
constexpr int WARPS = 8;
constexpr size_t DATA = (size_t)8 << 30, IN_L2 = (size_t)24 << 20;
__device__ unsigned sink;

template <int WIDTH, bool READS>
__global__ void store_rows(const char *data, char *written, size_t size, int bytes, int pitch, int rows, long long *cycles) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned found = 0;
  long long start = clock64();
  for (int i = 0; i < rows; ++i) {
    size_t row = ((size_t)i * gridDim.x + blockIdx.x) * pitch % size;
    const char *from = data + row;
    char *to = written + row;
    if (READS) {
      for (int at = warp * 512 + lane * 16; at < bytes; at += WARPS * 512) {
        uint4 v;
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from + at) : "memory");
        found += v.x + v.y + v.z + v.w;
      }
      found = __syncthreads_or(found);
    } else __syncthreads();
    for (int at = warp * 512 + lane * 16; at < bytes; at += WARPS * 512) {
      if (WIDTH == LINES) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(to + at), "r"(found) : "memory");
      if (WIDTH == WORDS)
#pragma unroll
        for (int i = 0; i < 4; ++i) asm volatile("st.global.u32 [%0], %1;" ::"l"(to + at + i * 4), "r"(found) : "memory");
      if (WIDTH == ELEMENTS)
#pragma unroll
        for (int i = 0; i < 8; ++i) asm volatile("st.global.u16 [%0], %1;" ::"l"(to + at + i * 2), "h"((short)found) : "memory");
    }
  }
  __threadfence();
  if (lane == 0) cycles[blockIdx.x * WARPS + warp] = clock64() - start;
  if (found == 77) sink = found;
}

template <int WIDTH, bool READS> void measure(const char *data, char *written, long long *cycles) {
  for (int sms : {1, 66, 132})
    for (int each : {1, 2, 5, 8})
      for (int bytes : {2000, 6000, 8192})
        for (bool hbm : {false, true}) {
          if (sms < 132 && each > 1) continue;  // they would go to other SMs
          int ctas = sms * each, rows = 600 / each, pitch = (bytes + 127) / 128 * 128;
          double mean = 0;
          for (int twice = 0; twice < 2; ++twice) {
            store_rows<WIDTH, READS><<<ctas, WARPS * 32>>>(data, written, hbm ? DATA : IN_L2 / pitch * pitch, bytes, pitch, rows, cycles);
            CHECK(cudaDeviceSynchronize());
            mean = 0;
            for (int i = 0; i < ctas * WARPS; ++i) mean += (double)cycles[i] / (ctas * WARPS);
          }
          double all = (double)rows * each * bytes, piece = mean / all * 512;
          printf("{\"stores\": \"%s\", \"reads\": %s, \"sms\": %d, \"ctas_per_sm\": %d, \"row_bytes\": %d, \"to\": \"%s\", \"cycles\": %.2f, \"bytes_per_cycle\": %.1f}\n",
                 WIDTHS[WIDTH], READS ? "true" : "false", sms, each, bytes, hbm ? "HBM" : "L2", piece, 512.0 / piece * sms);
        }
}

int main() {
  char *data, *written;
  long long *cycles;
  CHECK(cudaMalloc(&data, DATA));
  CHECK(cudaMalloc(&written, DATA));
  CHECK(cudaMemset(data, 0, DATA));
  CHECK(cudaMallocManaged(&cycles, sizeof(long long) * 132 * 8 * WARPS));
  measure<ELEMENTS, false>(data, written, cycles);
  measure<ELEMENTS, true>(data, written, cycles);
  measure<WORDS, false>(data, written, cycles);
  measure<WORDS, true>(data, written, cycles);
  measure<LINES, false>(data, written, cycles);
  measure<LINES, true>(data, written, cycles);
}
