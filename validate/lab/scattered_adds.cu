// What additions take where the lanes of a warp are scattered: over sectors, several at a word, all at random.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 scattered_adds.cu -o scattered_adds
//   ./scattered_adds > scattered-adds.jsonl
//
// Each warp adds `PER_WARP` times. Each time it draws `sectors` sectors among `lines` lines that lie together; 32 / sectors
// lanes go to each, to `words` of its words in turn. `sectors` 0: each lane draws a word of its own, as a histogram of
// data does. `first` is the line that the lines begin at. Last, `slices` says which lines are added to at one place:
// two lines that take as long as one line in turns lie together, two that take half of it apart.
#include <algorithm>
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <vector>
#include "check.cuh"

enum Op { ADD_I32, ADD_F32, ADD_F16X2, GIVEN_BACK_I32, GIVEN_BACK_F32, OPS };
const char *OP[] = {"red s32", "red f32", "red f16x2", "atom s32", "atom f32"};
constexpr int PER_WARP = 16, THREADS = 256, SMS = 132, RUNS = 5, SLICE_LINES = 256;
constexpr unsigned MOST_LINES = 1u << 18;

__device__ float sink;

template <int OP_> __device__ __forceinline__ float add(char *at) {
  float before = 0;
  int old = 0;
  if (OP_ == ADD_I32) asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(at), "r"(1) : "memory");
  if (OP_ == ADD_F32) asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(at), "f"(1.0f) : "memory");
  if (OP_ == ADD_F16X2) asm volatile("red.relaxed.gpu.global.add.noftz.f16x2 [%0], %1;" ::"l"(at), "r"(0x3c003c00) : "memory");
  if (OP_ == GIVEN_BACK_I32) asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], %2;" : "=r"(old) : "l"(at), "r"(1) : "memory");
  if (OP_ == GIVEN_BACK_F32) asm volatile("atom.relaxed.gpu.global.add.f32 %0, [%1], %2;" : "=f"(before) : "l"(at), "f"(1.0f) : "memory");
  return before + __int_as_float(old);
}

__device__ __forceinline__ unsigned drawn(unsigned seed) {
  seed *= 2654435761u;
  seed = (seed ^ seed >> 16) * 0x85ebca6bu;
  seed = (seed ^ seed >> 13) * 0xc2b2ae35u;
  return seed ^ seed >> 16;
}

template <int OP_> __global__ void adds(char *data, unsigned lines, unsigned sectors, unsigned words) {
  unsigned lane = threadIdx.x % 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  float sum = 0;
  for (unsigned i = 0; i < PER_WARP; ++i) {
    unsigned turn = (warp * PER_WARP + i) * 32;
    size_t word;
    if (sectors == 0) word = drawn(turn + lane) % (lines * 32);
    else {
      unsigned lanes = 32 / sectors;
      word = drawn(turn + lane / lanes) % (lines * 4) * 8 + lane % lanes % words;
    }
    sum += add<OP_>(data + word * 4);
  }
  if (sum == 7e30f) sink = sum;
}

// Whole lines, of two in turns: `apart` lines from each other.
__global__ void pair_of_lines(char *data, unsigned one, unsigned other) {
  unsigned lane = threadIdx.x % 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  for (unsigned i = 0; i < PER_WARP; ++i)
    add<ADD_F32>(data + ((warp + i) % 2 ? other : one) * 128ull + lane * 4);
}

__global__ void nothing() {}

template <typename Launch> float best_us(Launch launch, int runs = RUNS) {
  static cudaEvent_t begin = nullptr, end;
  if (!begin) {
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
  }
  float best = 1e30f, ms;
  for (int run = 0; run < runs; ++run) {
    CHECK(cudaEventRecord(begin));
    launch();
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaGetLastError());
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    best = std::min(best, ms);
  }
  return best * 1e3f;
}

template <int OP_> void row(char *data, unsigned first, unsigned lines, unsigned sectors, unsigned words, int ctas) {
  float us = best_us([&] { adds<OP_><<<ctas, THREADS>>>(data + first * 128ull, lines, sectors, words); });
  printf("{\"op\": \"%s\", \"first\": %u, \"lines\": %u, \"sectors\": %u, \"words\": %u, \"ctas\": %d, \"warps\": %d, "
         "\"adds_a_warp\": %d, \"us\": %.3f}\n",
         OP[OP_], first, lines, sectors, words, ctas, ctas * THREADS / 32, PER_WARP, us);
}

template <int OP_> void rows(char *data) {
  for (unsigned lines : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 256u, 1024u, 16384u, MOST_LINES})
    for (unsigned sectors : {0u, 1u, 2u, 4u, 8u, 16u, 32u})
      for (unsigned words : {1u, 2u, 4u, 8u})
        if (words <= (sectors ? 32 / sectors : 1)) row<OP_>(data, 0, lines, sectors, words, SMS * 8);
  for (unsigned lines : {8u, 256u, 16384u, MOST_LINES})
    for (int ctas : {8, 33, 66, SMS, SMS * 2, SMS * 4, SMS * 32})
      row<OP_>(data, 0, lines, 0, 1, ctas);
}

// Slice of each of the first lines from a place on, numbered as they are met.
void slices(char *data, unsigned first) {
  std::vector<unsigned> of_slice, slice;
  auto us = [&](unsigned one, unsigned other) {
    return best_us([&] { pair_of_lines<<<SMS * 2, THREADS>>>(data + first * 128ull, one, other); }, 2);
  };
  float alone = us(0, 0);
  for (unsigned line = 0; line < SLICE_LINES; ++line) {
    unsigned found = of_slice.size();
    // The slices met last are the likeliest.
    for (unsigned back = 0; back < of_slice.size() && found == of_slice.size(); ++back) {
      unsigned number = of_slice.size() - 1 - back;
      if (us(of_slice[number], line) > 0.78f * alone) found = number;
    }
    if (found == of_slice.size()) of_slice.push_back(line);
    slice.push_back(found);
  }
  printf("{\"op\": \"slices\", \"first\": %u, \"alone_us\": %.3f, \"slices\": [", first, alone);
  for (unsigned line = 0; line < SLICE_LINES; ++line) printf("%s%u", line ? ", " : "", slice[line]);
  printf("]}\n");
}

int main(int count, char **) {
  char *data;
  CHECK(cudaMalloc(&data, MOST_LINES * 128ull));
  CHECK(cudaMemset(data, 0, MOST_LINES * 128ull));
  if (count > 1) {  // a few, to be counted by ncu
    for (unsigned lines : {8u, 16384u}) {
      adds<ADD_I32><<<SMS * 8, THREADS>>>(data, lines, 1, 1);
      adds<ADD_I32><<<SMS * 8, THREADS>>>(data, lines, 1, 8);
      adds<ADD_I32><<<SMS * 8, THREADS>>>(data, lines, 4, 8);
      adds<ADD_I32><<<SMS * 8, THREADS>>>(data, lines, 32, 1);
      adds<ADD_I32><<<SMS * 8, THREADS>>>(data, lines, 0, 1);
      adds<ADD_F32><<<SMS * 8, THREADS>>>(data, lines, 1, 1);
      adds<ADD_F32><<<SMS * 8, THREADS>>>(data, lines, 32, 1);
      adds<GIVEN_BACK_I32><<<SMS * 8, THREADS>>>(data, lines, 1, 1);
      adds<GIVEN_BACK_I32><<<SMS * 8, THREADS>>>(data, lines, 32, 1);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
  }
  printf("{\"op\": \"nothing\", \"us\": %.3f}\n", best_us([&] { nothing<<<SMS * 8, THREADS>>>(); }, 20));
  rows<ADD_I32>(data);
  rows<ADD_F32>(data);
  rows<ADD_F16X2>(data);
  rows<GIVEN_BACK_I32>(data);
  rows<GIVEN_BACK_F32>(data);
  // Few lines may lie in one slice or in several: at other places.
  for (unsigned lines : {2u, 4u, 8u, 16u, 64u})
    for (unsigned place = 1; place <= 24; ++place) row<ADD_I32>(data, place * 8 + place * 8192, lines, 0, 1, SMS * 2);
  for (unsigned first : {0u, 8192u, 100000u}) slices(data, first);
}
