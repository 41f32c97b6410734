// What random pieces take of device memory: read, and stored to, a sector or more at a time.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 random_pieces.cu -o random_pieces
//   ./random_pieces > random_pieces.jsonl
//
// Warps go to random places of `region` bytes: `piece` bytes together, of at most 16 B a lane, aligned to their size.
// 134 MB of pieces a launch, other places each time, behind a write of 256 MB. `counted`: each once, for ncu (dram__bytes_read.sum and dram__bytes_write.sum).
#include <algorithm>
#include <cstdio>
#include <cuda_runtime.h>
#include "check.cuh"

enum Op { LOAD, LOAD_PAST_L1, STORE, OPS };
const char *OP[] = {"load", "load past l1", "store"};
constexpr int ROUNDS = 8, THREADS = 128, RUNS = 5;
__device__ float sink;

__device__ __forceinline__ unsigned drawn(unsigned seed) {
  seed = (seed ^ seed >> 16) * 0x85ebca6bu;
  seed = (seed ^ seed >> 13) * 0xc2b2ae35u;
  return seed ^ seed >> 16;
}

template <int OP_, int VECTOR> __global__ void pieces(char *data, size_t places, unsigned piece, unsigned salt) {
  unsigned thread = blockIdx.x * THREADS + threadIdx.x, lanes = piece / (4 * VECTOR);
  float sum = 0;
  size_t at[ROUNDS];
#pragma unroll
  for (int i = 0; i < ROUNDS; ++i) {
    unsigned group = (i * gridDim.x * THREADS + thread) / lanes;
    at[i] = ((size_t)drawn(group * 2654435761u + salt) * places >> 32) * piece + thread % lanes * 4 * VECTOR;
  }
#pragma unroll
  for (int i = 0; i < ROUNDS; ++i) {
    float a = 1, b = 0, c = 0, d = 0;
    char *to = data + at[i];
    if (OP_ == LOAD && VECTOR == 4) asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(to));
    if (OP_ == LOAD && VECTOR == 1) asm volatile("ld.global.f32 %0, [%1];" : "=f"(a) : "l"(to));
    if (OP_ == LOAD_PAST_L1 && VECTOR == 4) asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(to));
    if (OP_ == LOAD_PAST_L1 && VECTOR == 1) asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(a) : "l"(to));
    if (OP_ == STORE && VECTOR == 4) asm volatile("st.global.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(to), "f"(a) : "memory");
    if (OP_ == STORE && VECTOR == 1) asm volatile("st.global.f32 [%0], %1;" ::"l"(to), "f"(a) : "memory");
    sum += a + b + c + d;
  }
  if (sum == 7e30f) sink = sum;
}

template <int OP_, int VECTOR> void row(char *data, char *other, size_t region, unsigned piece, size_t total, bool counted) {
  static cudaEvent_t begin = nullptr, end;
  static unsigned salt = 0;
  if (!begin) {
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
  }
  unsigned ctas = total / (4 * VECTOR) / THREADS / ROUNDS;
  float us[RUNS];
  for (int run = 0; run < (counted ? 1 : RUNS); ++run) {
    CHECK(cudaMemsetAsync(other, run, 256 << 20));
    CHECK(cudaEventRecord(begin));
    pieces<OP_, VECTOR><<<ctas, THREADS>>>(data, region / piece, piece, salt += 40503u);
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(us + run, begin, end));
  }
  std::sort(us, us + (counted ? 1 : RUNS));
  printf("{\"program\": \"random_pieces\", \"op\": \"%s\", \"piece\": %u, \"lane\": %d, \"region\": %zu, \"bytes\": %zu, \"us\": %.3f}\n", OP[OP_], piece,
         4 * VECTOR, region, total, us[counted ? 0 : RUNS / 2] * 1e3f);
}

template <int OP_> void rows(char *data, char *other, bool counted) {
  for (size_t region : {(size_t)1 << 28, (size_t)3 << 30, (size_t)12 << 30}) {
    if (counted && region != (size_t)3 << 30) continue;
    row<OP_, 1>(data, other, region, 4, (size_t)1 << 24, counted);
    for (unsigned piece : {32u, 64u, 128u}) row<OP_, 1>(data, other, region, piece, (size_t)1 << 27, counted);
    for (unsigned piece : {16u, 32u, 64u, 96u, 128u, 256u, 512u, 4096u}) {
      if (piece == 96) continue;
      row<OP_, 4>(data, other, region, piece, (size_t)1 << 27, counted);
    }
  }
}

int main(int argc, char **) {
  char *data, *other;
  CHECK(cudaMalloc(&data, (size_t)12 << 30));
  CHECK(cudaMalloc(&other, 256 << 20));
  CHECK(cudaMemset(data, 0, (size_t)12 << 30));
  rows<LOAD>(data, other, argc > 1);
  rows<LOAD_PAST_L1>(data, other, argc > 1);
  rows<STORE>(data, other, argc > 1);
}
