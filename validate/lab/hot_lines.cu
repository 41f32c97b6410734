// What L2 gives where many warps read few lines: its slices serve one request after the other.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 hot_lines.cu -o hot_lines
//   ./hot_lines > hot_lines.jsonl
//
// Each warp loads `ROUNDS` times, past L1, from one of `lines` lines, `apart` lines from each other; warps begin at different ones.
// `form`: what a warp asks for. `random`: a hash picks the line, else they come in turns. `counted`: one launch of some, for ncu:
//   ncu --clock-control none --csv --metrics lts__t_requests_srcunit_tex.sum,lts__t_sectors_srcunit_tex.sum,l1tex__m_xbar2l1tex_read_sectors.sum ./hot_lines counted
#include <cstdio>
#include <cuda_runtime.h>
#include "check.cuh"

enum Form { LINE, SECTOR, WORD, FOUR_LINES, LANES, FORMS };
const char *FORM[] = {"line", "sector", "word", "four lines", "sectors of 32 lines"};
constexpr int ROUNDS = 256, RUNS = 3;
__device__ float sink;

template <int FORM_> __global__ void reads(const char *data, unsigned lines, unsigned apart, int random) {
  unsigned lane = threadIdx.x % 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  float sum = 0;
#pragma unroll 8
  for (unsigned i = 0; i < ROUNDS; ++i) {
    unsigned pick = warp * 7919u + i;
    if (random) {
      pick = (warp * ROUNDS + i) * 2654435761u;
      pick = (pick ^ pick >> 15) * 2246822519u;
      pick ^= pick >> 13;
    }
    const char *at = data;
    if (FORM_ == LINE) at += (size_t)(pick % lines) * apart * 128 + lane * 4;
    if (FORM_ == SECTOR) at += (size_t)(pick % lines) * apart * 128 + lane % 8 * 4;
    if (FORM_ == WORD) at += (size_t)(pick % lines) * apart * 128;
    if (FORM_ == FOUR_LINES) at += (size_t)((pick * 4 + lane / 8) % lines) * apart * 128 + lane % 8 * 16;
    if (FORM_ == LANES) at += (size_t)((pick * 32 + lane) % lines) * apart * 128;
    if (FORM_ == FOUR_LINES) {
      float a, b, c, d;
      asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(at));
      sum += a + b + c + d;
    } else {
      float a;
      asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(a) : "l"(at));
      sum += a;
    }
  }
  if (sum == 7e30f) sink = sum;
}

template <int FORM_> void row(char *data, unsigned lines, unsigned apart, int ctas, int threads, int random, int runs) {
  static cudaEvent_t begin = nullptr, end;
  if (!begin) {
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
  }
  float best = 1e30f;
  for (int run = 0; run < runs; ++run) {
    float ms;
    CHECK(cudaEventRecord(begin));
    reads<FORM_><<<ctas, threads>>>(data, lines, apart, random);
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    best = ms < best ? ms : best;
  }
  double requests = (double)ctas * threads / 32 * ROUNDS;
  printf("{\"program\": \"hot_lines\", \"form\": \"%s\", \"lines\": %u, \"apart\": %u, \"ctas\": %d, \"threads\": %d, \"random\": %d, "
         "\"requests\": %.0f, \"us\": %.3f, \"ns_a_request\": %.4f}\n", FORM[FORM_], lines, apart, ctas, threads, random, requests, best * 1e3f, best * 1e6 / requests);
}

template <int FORM_> void rows(char *data) {
  for (unsigned lines : {1u, 2u, 3u, 4u, 8u, 16u, 64u, 128u, 512u, 4096u, 65536u}) {
    if (FORM_ == FOUR_LINES && lines < 4) continue;
    row<FORM_>(data, lines, 1, 132, 1024, 0, RUNS);
    if (FORM_ == LINE && lines > 1) row<FORM_>(data, lines, 1, 132, 1024, 1, RUNS);
  }
  if (FORM_ == LINE || FORM_ == WORD)
    for (int ctas : {1, 2, 4, 8, 16, 33, 66, 264}) {
      row<FORM_>(data, 1, 1, ctas, 1024, 0, RUNS);
      row<FORM_>(data, 512, 1, ctas, 1024, 0, RUNS);
    }
  if (FORM_ == LINE)
    for (int threads : {32, 64, 128, 256, 512}) row<FORM_>(data, 1, 1, 132, threads, 0, RUNS);
  if (FORM_ == LINE)
    for (unsigned apart : {2u, 8u, 64u, 128u, 4096u, 16384u})
      for (unsigned lines : {2u, 4u, 16u}) row<FORM_>(data, lines, apart, 132, 1024, 0, RUNS);
}

int main(int argc, char **) {
  char *data;
  CHECK(cudaMalloc(&data, (size_t)1 << 28));
  CHECK(cudaMemset(data, 0, (size_t)1 << 28));
  if (argc > 1) {
    for (unsigned lines : {1u, 4u, 64u, 4096u}) {
      row<LINE>(data, lines, 1, 132, 1024, 0, 1);
      row<SECTOR>(data, lines, 1, 132, 1024, 0, 1);
    }
    return 0;
  }
  rows<LINE>(data);
  rows<SECTOR>(data);
  rows<WORD>(data);
  rows<FOUR_LINES>(data);
  rows<LANES>(data);
}
