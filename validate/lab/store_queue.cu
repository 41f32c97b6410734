// What waits behind the stores of an SM of an H200, for how long, and how many stores may be under way.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 store_queue.cu -o store_queue
//   ./store_queue > store_queue.jsonl
//
// Each line on stdout is a measurement, in cycles of an SM: means over the CTAs, one on an SM, and over rounds.
// A round begins with a barrier, and with nothing under way. Everything runs twice, and the second run counts.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include "check.cuh"

enum Op { NONE, LDS, STS, LDG, LDGSTS, STG };
const char *OPS[] = {"none", "LDS", "STS", "LDG", "LDGSTS", "STG"};
enum Width { LINES, SECTORS };  // a warp stores 512 B in a row, or an element of 2 B in each of 16 B
const char *WIDTHS[] = {"512 B", "32 x 2 B of 512 B"};

constexpr int SMS = 132, ROUNDS = 100, QUIET = 20000;
constexpr size_t DATA = 8 << 20;      // bytes to load, all of which L2 holds
constexpr size_t REGION = 128 << 10;  // bytes that a CTA writes, all of which L2 holds
constexpr unsigned NEVER = 0x12345;
struct Times { long long issued, waited, drained; };

extern __shared__ __align__(1024) char memory[];
__device__ unsigned sink;
__device__ unsigned address(const void *at) { return __cvta_generic_to_shared(at); }

template <int WIDTH> __device__ void store(char *to, int lane, unsigned value) {
  if (WIDTH == LINES)
    asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(to + lane * 16), "r"(value) : "memory");
  else
    asm volatile("st.global.u16 [%0], %1;" ::"l"(to + lane * 16), "h"((short)value) : "memory");
}

// Warps store `stores` times each, and then all of them, or the last one alone (which has stored nothing), do `OP`.
template <int OP, int WIDTH, int STORES>
__global__ void behind(const char *data, char *written, bool other, int delay, Times *times) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32, writers = warps - other;
  char *own = written + blockIdx.x * REGION;
  unsigned mine = address(memory) + threadIdx.x * 16, found = 0;
  Times sum{};
  for (int round = 0; round < ROUNDS; ++round) {
    long long quiet = clock64();
    while (clock64() - quiet < QUIET) {}
    // A warp's stores lie one after the other, at constant distances: nothing is computed between them.
    char *to = own + warp * STORES * 512;
    __syncthreads();
    long long start = clock64();
    if (warp < writers)
#pragma unroll
      for (int i = 0; i < STORES; ++i) store<WIDTH>(to + i * 512, lane, round);
    long long issued = clock64();
    if (!other || warp == writers) {
      while (clock64() - start < delay) {}
      long long begin = clock64();
      unsigned v = 0;
      const char *from = data + (blockIdx.x * 7919 + round * 16 + warp) * 512 % DATA + lane * 16;
      if (OP == LDS) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(mine) : "memory");
      if (OP == STS) {
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(mine), "r"(round) : "memory");
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(mine) : "memory");
      }
      if (OP == LDG) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
      if (OP == LDGSTS) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(mine), "l"(from) : "memory");
        asm volatile("cp.async.wait_all;" ::: "memory");
      }
      if (OP == STG) store<WIDTH>(own + warp * 512, lane, round);
      if (v == NEVER) found = 1;
      asm volatile("" ::"r"(found) : "memory");
      sum.waited += clock64() - begin;
    }
    __threadfence();
    sum.drained += clock64() - start;
    sum.issued += issued - start;
  }
  if (found) sink = found;
  if (lane == 0) times[blockIdx.x * warps + warp] = sum;
}

// Warps load single elements of 2 B, 16 B from one lane to the next, all 8 of the same 16 B one after the other.
template <int FRESH> __global__ void load_sectors(const char *data, Times *times) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  unsigned sum = 0;
  __syncthreads();
  long long start = clock64();
#pragma unroll 1
  for (int round = 0; round < ROUNDS; ++round) {
    const char *from = data + ((blockIdx.x * 977 + (FRESH ? round : sum & 1)) * warps + warp) * 512 % DATA + lane * 16;
    unsigned short v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) asm volatile("ld.global.u16 %0, [%1];" : "=h"(v[i]) : "l"(from + 2 * i) : "memory");
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += v[i];
  }
  if (sum == NEVER) sink = sum;
  Times t{clock64() - start, 8 * ROUNDS, 0};
  if (lane == 0) times[blockIdx.x * warps + warp] = t;
}

// A thread stores a tile by a bulk copy (or not), and loads another: until that is there, and until all has left.
__global__ void bulk(const char *data, char *written, int bytes, bool stores, Times *times) {
  unsigned from = address(memory), to = from + bytes, barrier = to + bytes;
  Times sum{};
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
    for (int round = 0; round < ROUNDS; ++round) {
      long long quiet = clock64();
      while (clock64() - quiet < QUIET) {}
      long long start = clock64();
      if (stores) {
        char *at = written + (size_t)blockIdx.x * REGION + round * bytes % (REGION / bytes * bytes);
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(at), "r"(from), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      }
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%3], %2;\n"
                   "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                   "l"(data + (blockIdx.x * 37 + round) * (size_t)bytes % DATA), "r"(bytes), "r"(barrier) : "memory");
      for (unsigned done = 0; !done;)
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done) : "r"(barrier), "r"(round % 2) : "memory");
      sum.waited += clock64() - start;
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      sum.issued += clock64() - start;
      asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
      sum.drained += clock64() - start;
    }
    times[blockIdx.x] = sum;
  }
}

char *data, *written;
Times *counts;

template <typename... P, typename... A>
std::vector<Times> measure(void (*kernel)(P...), int ctas, int threads, int shared, int counted, A... arguments) {
  std::vector<Times> result(ctas * counted);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  for (int i = 0; i < 2; ++i) kernel<<<ctas, threads, shared>>>(arguments..., counts);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(result.data(), counts, sizeof(Times) * ctas * counted, cudaMemcpyDefault));
  return result;
}

double mean(const std::vector<Times> &all, int counted, int first, int last, long long Times::*part) {
  double sum = 0;
  int n = 0;
  for (int i = 0; i < (int)all.size(); ++i)
    if (i % counted >= first && i % counted < last) sum += (double)(all[i].*part) / ROUNDS, ++n;
  return sum / n;
}

template <int OP, int WIDTH, int STORES> void waits(int ctas, int writers, bool other, int delay) {
  int warps = writers + other;
  auto all = measure(behind<OP, WIDTH, STORES>, ctas, warps * 32, 16 << 10, warps, data, written, other, delay);
  printf("{\"what\": \"behind stores\", \"op\": \"%s\", \"store\": \"%s\", \"stores\": %d, \"ctas\": %d, \"writers\": %d, "
         "\"other_warp\": %d, \"delay\": %d, \"issued_cycles\": %.1f, \"op_cycles\": %.1f, \"drained_cycles\": %.1f}\n",
         OPS[OP], WIDTHS[WIDTH], STORES, ctas, writers, other, delay, mean(all, warps, 0, writers, &Times::issued),
         mean(all, warps, other ? writers : 0, warps, &Times::waited), mean(all, warps, 0, writers, &Times::drained));
}

template <int OP, int WIDTH> void rows(int ctas) {
  for (int writers : {1, 4, 8, 16}) {
    waits<OP, WIDTH, 0>(ctas, writers, false, 0), waits<OP, WIDTH, 1>(ctas, writers, false, 0);
    waits<OP, WIDTH, 2>(ctas, writers, false, 0), waits<OP, WIDTH, 4>(ctas, writers, false, 0);
    waits<OP, WIDTH, 8>(ctas, writers, false, 0), waits<OP, WIDTH, 16>(ctas, writers, false, 0);
    if (writers < 16)
      waits<OP, WIDTH, 8>(ctas, writers, true, 100), waits<OP, WIDTH, 16>(ctas, writers, true, 100);
  }
}

int main() {
  CHECK(cudaMalloc(&data, DATA));
  CHECK(cudaMemset(data, 0, DATA));
  CHECK(cudaMalloc(&written, SMS * REGION));
  CHECK(cudaMalloc(&counts, SMS * 32 * sizeof(Times)));
  for (int ctas : {1, SMS}) {
    rows<LDS, LINES>(ctas), rows<STS, LINES>(ctas), rows<LDG, LINES>(ctas), rows<LDGSTS, LINES>(ctas);
    rows<STG, LINES>(ctas), rows<LDS, SECTORS>(ctas), rows<LDG, SECTORS>(ctas);
    for (int warps : {1, 4, 8, 16}) {
      auto fresh = measure(load_sectors<1>, ctas, warps * 32, 0, warps, data);
      auto held = measure(load_sectors<0>, ctas, warps * 32, 0, warps, data);
      for (bool again : {false, true})
        printf("{\"what\": \"load 32 x 2 B of 512 B\", \"ctas\": %d, \"warps\": %d, \"from\": \"%s\", "
               "\"cycles_per_load_of_an_sm\": %.2f}\n", ctas, warps, again ? "L1" : "L2, then L1 seven times",
               mean(again ? held : fresh, warps, 0, warps, &Times::issued) / 8 / warps);
    }
    for (int bytes : {4096, 16384, 32768})
      for (bool stores : {false, true}) {
        auto all = measure(bulk, ctas, 32, 2 * bytes + 16, 1, data, written, bytes, stores);
        printf("{\"what\": \"bulk copies\", \"bytes\": %d, \"stores\": %d, \"ctas\": %d, \"loaded_cycles\": %.1f, "
               "\"read_cycles\": %.1f, \"written_cycles\": %.1f}\n", bytes, stores, ctas,
               mean(all, 1, 0, 1, &Times::waited), mean(all, 1, 0, 1, &Times::issued), mean(all, 1, 0, 1, &Times::drained));
      }
  }
}
