// How many memory instructions of a sub-core wait in front of L1 of an H200, and who waits behind them.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 lsu_queue.cu -o lsu_queue
//   ./lsu_queue > lsu_queue.jsonl
//
// Each line on stdout is a measurement in cycles of an SM, the median over the CTAs, one on an SM.
// "burst": when the stores of a warp that stores as fast as it can have issued, one after the other.
// "after": when the last of a warp's stores has issued, and when what comes after it is done; of lines that L1 has,
// or not.
// "behind": how long one instruction takes that needs the result of the one before, while other warps store; null where
// they were done before.
// LDG of "behind" hits L1, LDG of "after" comes from L2; STS is one with an LDS of the same place behind it.
// Nothing waits for a clock: no register that a store reads is written again.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>
#include "check.cuh"

enum Op { LDS, LDL, LDG, STS };
const char *OPS[] = {"LDS", "LDL", "LDG", "STS"};
enum Width { LINES, WORDS, SECTORS };  // what a warp stores: 512 B or 128 B in a row, an element of 2 B in each of 16 B
const char *WIDTHS[] = {"512 B", "128 B", "32 x 2 B of 512 B"};

constexpr int SMS = 132, SUB_CORES = 4, BURST = 20, PROBES = 64, SLOTS = 64;
constexpr long long LIMIT = 100000;
constexpr size_t REGION = 256 << 10;  // bytes that a CTA writes, all of which L2 holds
constexpr unsigned NEVER = 0x12345;

__device__ unsigned sink;

template <int WIDTH> __device__ void store(char *to, int lane, uint4 v) {
  if (WIDTH == LINES)
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to + lane * 16), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
  if (WIDTH == WORDS) asm volatile("st.global.u32 [%0], %1;" ::"l"(to + lane * 4), "r"(v.x) : "memory");
  if (WIDTH == SECTORS) asm volatile("st.global.u16 [%0], %1;" ::"l"(to + lane * 16), "h"((short)v.x) : "memory");
}
__device__ long long now() {
  long long time;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(time)::"memory");
  return time;
}

// Warps store BURST times; a clock after each.
template <int WIDTH> __global__ void burst(char *written, unsigned *times, uint4 v) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  char *to = written + blockIdx.x * REGION + warp * BURST * 512;
  long long at[BURST + 1];
  for (int round = 0; round < 2; ++round) {
    for (long long start = clock64(); clock64() - start < 20000;) {}
    __syncthreads();
    at[0] = now();
#pragma unroll
    for (int i = 0; i < BURST; ++i) {
      store<WIDTH>(to + i * 512, lane, v);
      at[i + 1] = now();
    }
    __threadfence();
  }
  if (lane == 0)
#pragma unroll
    for (int i = 0; i < BURST; ++i) times[(blockIdx.x * warps + warp) * BURST + i] = at[i + 1] - at[0];
}

// Warps store STORES times, and then do `OP` and wait for it: when the last store has issued, and when `OP` is done.
template <int OP, int WIDTH, int STORES>
__global__ void after(char *written, unsigned *times, unsigned start, bool held, uint4 v) {
  __shared__ unsigned words[512];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const unsigned *line = (const unsigned *)(written + (blockIdx.x + 1) * REGION - 4096 + threadIdx.x % 128 * 4);
  unsigned mine = __cvta_generic_to_shared(&words[threadIdx.x]), place = start;
  char *to = written + blockIdx.x * REGION + warp * STORES * 512;
  words[threadIdx.x] = start;
  asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(place) : "l"(line) : "memory");
  place = place == NEVER ? 1 : start;
  if (held)
    for (int i = 0; i < STORES; ++i) {
      unsigned old;
      asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(old) : "l"(to + i * 512 + lane * 16) : "memory");
      if (old == NEVER) sink = 1;
    }
  for (long long begin = clock64(); clock64() - begin < 20000;) {}
  __syncthreads();
  long long first = now();
#pragma unroll
  for (int i = 0; i < STORES; ++i) store<WIDTH>(to + i * 512, lane, v);
  long long issued = now();
  if (OP == LDS) asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(place) : "r"(mine) : "memory");
  if (OP == LDG) asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(place) : "l"(line) : "memory");
  if (OP == STS) {
    asm volatile("st.volatile.shared.u32 [%1], %0; ld.volatile.shared.u32 %0, [%1];" : "+r"(place) : "r"(mine) : "memory");
  }
  if (place == NEVER) sink = 1;
  long long done = now();
  if (place == NEVER + 1) store<WIDTH>(to, lane, v), store<LINES>(to, lane + 1, v);  // what stores read stays as it is
  unsigned *own = times + (blockIdx.x * warps + warp) * 2;
  if (lane == 0) own[0] = issued - first, own[1] = done - first;
}

// The first four warps, one of each sub-core, do `OP` one after the other; those of the first `cores` sub-cores
// behind them store for as long.
template <int OP, int WIDTH> __global__ void behind(char *written, int cores, unsigned *times, unsigned start, uint4 v) {
  __shared__ unsigned words[32 * SUB_CORES];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned local[SLOTS];
  char *own = written + blockIdx.x * REGION;
  unsigned mine = __cvta_generic_to_shared(&words[threadIdx.x % (32 * SUB_CORES)]), value = mine;
  if (warp < SUB_CORES) words[threadIdx.x] = OP == LDS ? mine : start;
  const unsigned *line = (const unsigned *)(own + REGION - 4096 + threadIdx.x % 128 * 4);
  volatile unsigned *stack = local;
  for (int i = 0; i < SLOTS; ++i) stack[i] = start;
  __syncthreads();
  long long begin = clock64();
  if (warp < SUB_CORES) {
    unsigned place = start;
    asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(place) : "l"(line) : "memory");
    place = place == NEVER ? 1 : start;
    while (clock64() - begin < 5000) {}
    long long first = now();
#pragma unroll
    for (int i = 0; i < PROBES; ++i) {
      if (OP == LDS) asm volatile("ld.volatile.shared.u32 %0, [%0];" : "+r"(value)::"memory");
      if (OP == LDL) place = stack[place];
      if (OP == LDG) {
        asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(place) : "l"(line + place) : "memory");
      }
      if (OP == STS) {
        asm volatile("st.volatile.shared.u32 [%1], %0; ld.volatile.shared.u32 %0, [%1];" : "+r"(place) : "r"(mine) : "memory");
      }
    }
    if (value == NEVER || place == NEVER) sink = 1;
    long long last = now();
    if (lane == 0) times[blockIdx.x * SUB_CORES + warp] = last - first;
    if (clock64() - begin > LIMIT && lane == 0) times[blockIdx.x * SUB_CORES + warp] = 0;
  } else if (warp % SUB_CORES < cores) {
    char *to = own + (warp - SUB_CORES) * 8 * 512;
    while (clock64() - begin < LIMIT)
#pragma unroll
      for (int i = 0; i < 8; ++i) store<WIDTH>(to + i * 512, lane, v);
  }
}

const uint4 VALUE{1, 2, 3, 4};
char *written;
unsigned *times;

template <typename... P, typename... A>
std::vector<unsigned> measure(void (*kernel)(P...), int ctas, int threads, int counted, A... arguments) {
  std::vector<unsigned> all(ctas * counted);
  for (int i = 0; i < 2; ++i) kernel<<<ctas, threads>>>(arguments...);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(all.data(), times, all.size() * sizeof(unsigned), cudaMemcpyDefault));
  return all;
}

double median(const std::vector<unsigned> &all, int counted, int which) {
  std::vector<unsigned> found;
  for (size_t i = which; i < all.size(); i += counted) found.push_back(all[i]);
  std::sort(found.begin(), found.end());
  return found[found.size() / 2];
}

template <int WIDTH> void bursts(int ctas) {
  for (int warps : {1, 2, 4, 8, 16}) {
    auto all = measure(burst<WIDTH>, ctas, warps * 32, warps * BURST, written, times, VALUE);
    for (int warp : {0, warps - 1}) {
      printf("{\"what\": \"burst\", \"store\": \"%s\", \"ctas\": %d, \"warps\": %d, \"warp\": %d, \"issued_cycles\": [",
             WIDTHS[WIDTH], ctas, warps, warp);
      for (int i = 0; i < BURST; ++i) printf("%s%.0f", i ? ", " : "", median(all, warps * BURST, warp * BURST + i));
      printf("]}\n");
      if (warps == 1) break;
    }
  }
}

std::string each(double cycles) { return cycles > 0 ? std::to_string(cycles / PROBES) : "null"; }

template <int OP, int WIDTH> void waits(int ctas) {
  for (int storing : {0, 1, 2, 3})
    for (int cores : {1, 4}) {
      if (storing == 0 && cores == 1) continue;
      auto all = measure(behind<OP, WIDTH>, ctas, (1 + storing) * SUB_CORES * 32, SUB_CORES, written, cores, times, 0u, VALUE);
      printf("{\"what\": \"behind\", \"op\": \"%s\", \"store\": \"%s\", \"ctas\": %d, \"storing_warps_of_a_sub_core\": %d, "
             "\"storing_sub_cores\": %d, \"cycles_of_storing_sub_core\": %s, \"cycles_of_last_sub_core\": %s}\n",
             OPS[OP], WIDTHS[WIDTH], ctas, storing, cores, each(median(all, SUB_CORES, 0)).c_str(),
             each(median(all, SUB_CORES, SUB_CORES - 1)).c_str());
    }
}

template <int OP, int WIDTH, int STORES> void then(int ctas, bool held) {
  for (int warps : {1, 4, 8, 16}) {
    auto all = measure(after<OP, WIDTH, STORES>, ctas, warps * 32, warps * 2, written, times, 0u, held, VALUE);
    printf("{\"what\": \"after\", \"op\": \"%s\", \"store\": \"%s\", \"ctas\": %d, \"in_l1\": %d, \"warps\": %d, \"stores\": %d",
           OPS[OP], WIDTHS[WIDTH], ctas, held, warps, STORES);
    for (int warp : {0, warps - 1}) {
      printf(", \"%s_issued\": %.0f, \"%s_done\": %.0f", warp ? "last" : "first", median(all, warps * 2, warp * 2),
             warp ? "last" : "first", median(all, warps * 2, warp * 2 + 1));
      if (warps == 1) break;
    }
    printf("}\n");
  }
}

template <int OP, int WIDTH> void series(int ctas, bool held = false) {
  then<OP, WIDTH, 0>(ctas, held), then<OP, WIDTH, 1>(ctas, held), then<OP, WIDTH, 2>(ctas, held);
  then<OP, WIDTH, 4>(ctas, held), then<OP, WIDTH, 6>(ctas, held), then<OP, WIDTH, 8>(ctas, held);
  then<OP, WIDTH, 12>(ctas, held), then<OP, WIDTH, 16>(ctas, held), then<OP, WIDTH, 24>(ctas, held);
}

template <int WIDTH> void all(int ctas) {
  series<LDS, WIDTH>(ctas), series<LDS, WIDTH>(ctas, true), series<LDG, WIDTH>(ctas), series<STS, WIDTH>(ctas);
  bursts<WIDTH>(ctas);
  waits<LDS, WIDTH>(ctas), waits<LDL, WIDTH>(ctas), waits<LDG, WIDTH>(ctas), waits<STS, WIDTH>(ctas);
}

int main() {
  CHECK(cudaMalloc(&written, SMS * REGION));
  CHECK(cudaMemset(written, 0, SMS * REGION));
  CHECK(cudaMalloc(&times, SMS * 16 * BURST * sizeof(unsigned)));
  for (int ctas : {1, SMS}) all<LINES>(ctas), all<WORDS>(ctas), all<SECTORS>(ctas);
}
