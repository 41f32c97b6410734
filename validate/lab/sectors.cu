// What single sectors take: of L2 when they are read or stored to in part, and of L1 when a warp looks up words of a table.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 sectors.cu -o sectors
//   ./sectors > sectors.jsonl
//
// Away: each lane loads, or stores, `piece` bytes, and lanes lie `stride` bytes apart; a warp goes on to fresh places in
// `region` bytes that all CTAs share, which L2 holds or does not. One CTA of 32 warps on each of `sms` SMs.
// Tables: each lane loads a word of a table that L1 has, from a place that a hash picks (or, `banks`, from as many lines
// but a bank of its own; or all lanes one word). `warps` warps an SM; `chain`: each place comes from the word before.
// Each line on stdout is a measurement of cycles, the longest of all CTAs. Everything runs twice, the second run counts.
#include <cstdio>
#include <cuda_runtime.h>
#include "check.cuh"

enum Op { LOAD, STORE };
const char *OP[] = {"load", "store"};
constexpr int ROUNDS = 64, LOOKUPS = 512, SMS = 132;
constexpr size_t DATA = (size_t)4 << 30, IN_L2 = (size_t)16 << 20;
__device__ unsigned sink;

__device__ unsigned hash(unsigned x) {
  x *= 2654435761u;
  x = (x ^ x >> 15) * 2246822519u;
  return x ^ x >> 13;
}

template <int OP_, int PIECE>
__global__ void away(char *data, size_t region, unsigned stride, long long *cycles) {
  unsigned lane = threadIdx.x % 32, warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  unsigned warps = gridDim.x * (blockDim.x / 32), found = 0;
  size_t span = (size_t)32 * stride > 128 ? (size_t)32 * stride : 128;
  size_t places = region / span;
  long long start = clock64();
#pragma unroll 4
  for (int i = 0; i < ROUNDS; ++i) {
    char *at = data + ((size_t)hash(i * warps + warp) % places) * span + (size_t)lane * stride;
    if (OP_ == LOAD) {
      unsigned a, b = 0, c = 0, d = 0;
      if (PIECE == 4) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(a) : "l"(at));
      if (PIECE == 16) asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(at));
      found += a + b + c + d;
    } else {
      if (PIECE == 2) asm volatile("st.global.u16 [%0], %1;" ::"l"(at), "h"((short)i) : "memory");
      if (PIECE == 4) asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(i) : "memory");
      if (PIECE == 16) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(at), "r"(i) : "memory");
    }
  }
  if (found == 12345u) sink = found;
  __syncthreads();
  if (!threadIdx.x) cycles[blockIdx.x] = clock64() - start;
}

enum Places { HASH, BANKS, ONE };
const char *PLACES[] = {"hash", "banks", "one word"};

__global__ void tables(const unsigned *table, unsigned words, int places, int chain, long long *cycles) {
  unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, lines = words / 32 ? words / 32 : 1;
  unsigned found = 0, at = 0;
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) found += __ldg(table + i);
  __syncthreads();
  long long start = clock64();
#pragma unroll 4
  for (int i = 0; i < LOOKUPS; ++i) {
    unsigned pick = (lane * 7919 + warp * 131 + i * 37) + at;
    at = places == HASH ? (pick * 2654435761u >> 7) % words : places == BANKS ? (pick % lines * 32 + lane) % words : (i * 32 + at) % words;
    unsigned word;
    asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(word) : "l"(table + at));
    if (chain) at = word;
    else found += word, at = 0;
  }
  if (found + at == 12345u) sink = found;
  __syncthreads();
  if (!threadIdx.x) cycles[blockIdx.x] = clock64() - start;
}

long long longest(long long *cycles, int ctas) {
  CHECK(cudaDeviceSynchronize());
  long long most = 0;
  for (int i = 0; i < ctas; ++i) most = cycles[i] > most ? cycles[i] : most;
  return most;
}

template <int OP_, int PIECE> void rows(char *data, long long *cycles) {
  for (size_t region : {IN_L2, DATA})
    for (unsigned stride : {2u, 4u, 8u, 16u, 32u, 64u, 128u, 256u, 1024u, 4096u})
      for (int sms : {1, 2, 8, 32, 66, 132}) {
        if (stride < PIECE || (sms != 1 && sms != 32 && sms != 132 && stride != 128 && stride != 32)) continue;
        if (region == DATA && sms != 132) continue;
        long long seen = 0;
        for (int run = 0; run < 2; ++run) {
          away<OP_, PIECE><<<sms, 1024>>>(data, region, stride, cycles);
          seen = longest(cycles, sms);
        }
        double sectors = 32.0 * (stride < 32 ? stride : (unsigned)(PIECE > 32 ? PIECE : 32)) / 32;
        printf("{\"op\": \"%s\", \"piece\": %d, \"stride\": %u, \"region\": %zu, \"sms\": %d, \"requests\": %d, \"cycles\": %lld, "
               "\"cycles_a_request\": %.2f, \"sectors_a_cycle\": %.2f}\n", OP[OP_], PIECE, stride, region, sms, 32 * ROUNDS, seen,
               (double)seen / (32 * ROUNDS), sectors * 32 * ROUNDS * sms / seen);
      }
}

int main() {
  char *data;
  long long *cycles;
  CHECK(cudaMalloc(&data, DATA));
  CHECK(cudaMemset(data, 0, DATA));
  CHECK(cudaMallocManaged(&cycles, SMS * sizeof(long long)));
  rows<LOAD, 4>(data, cycles);
  rows<LOAD, 16>(data, cycles);
  rows<STORE, 2>(data, cycles);
  rows<STORE, 4>(data, cycles);
  rows<STORE, 16>(data, cycles);
  CHECK(cudaMemset(data, 0, DATA));
  for (unsigned words : {32u, 64u, 128u, 256u, 1024u, 4096u, 16384u})
    for (int places : {HASH, BANKS, ONE})
      for (int warps : {1, 4, 8, 16, 32})
        for (int chain : {0, 1}) {
          if (chain && warps > 1) continue;
          long long seen = 0;
          for (int run = 0; run < 2; ++run) {
            tables<<<SMS, warps * 32>>>((const unsigned *)data, words, places, chain, cycles);
            seen = longest(cycles, SMS);
          }
          printf("{\"op\": \"look up\", \"words\": %u, \"places\": \"%s\", \"warps\": %d, \"chain\": %d, \"cycles_a_request\": %.2f}\n",
                 words, PLACES[places], warps, chain, (double)seen / LOOKUPS / warps);
        }
}
