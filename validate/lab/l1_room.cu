// What takes room in L1 of an H200, and where the CTAs of a large grid go.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 l1_room.cu -o l1_room
//   ./l1_room > l1_room.jsonl
//   ncu --csv --page raw --print-units base --clock-control none --cache-control none \
//       --metrics l1tex__m_xbar2l1tex_read_bytes.sum,l1tex__m_l1tex2xbar_write_bytes.sum ./l1_room > l1_room.csv
//
// Room: four warps load a set of lines again and again, each time behind so many fresh lines that are loaded, stored to
// or added to, whole or in part. A load of less than `HIT` cycles has hit. Found: lines are stored to, and loaded for
// the first time. One CTA an SM, on all SMs.
// Order: CTAs that each move some KiB say on which SM they run, and when they began.
#include <cstdio>
#include <cstdlib>
#include <set>
#include <vector>
#include <cuda_runtime.h>
#include "check.cuh"

enum Fresh { LOAD, LOAD_SECTOR, STORE, STORE_SECTOR, STORE_WORD, UPDATE, ADD, LOAD_FIRST, LOAD_NONE, MODES };
const char *FRESH[] = {"load", "load a sector", "store", "store a sector", "store a word", "load and store", "add a word",
                       "load, evict first", "load, no allocate"};
enum Set { LINES, SECTORS, WRITTEN, LAST };
const char *SETS[] = {"lines", "sectors", "lines stored to", "lines, evict last"};
constexpr int HIT = 120, ROUNDS = 30, WARPS = 4, SMS = 132, CHUNK = WARPS * 32;
constexpr size_t DATA = (size_t)8 << 30, EACH = DATA / SMS / 65536 * 65536, SET_EACH = (size_t)1 << 20;
struct Counts { long long hits, loads, cycles; };

extern __shared__ __align__(1024) char memory[];
__device__ unsigned sink;

__device__ __forceinline__ unsigned load16(const char *from, int mode) {
  uint4 v;
  if (mode == LOAD_FIRST) asm volatile("ld.global.L1::evict_first.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from) : "memory");
  else if (mode == LOAD_NONE) asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from) : "memory");
  else asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from) : "memory");
  return v.x + v.y + v.z + v.w;
}
__device__ __forceinline__ void store16(char *to, unsigned v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(to), "r"(v) : "memory");
}

// A warp moves 32 fresh lines from `at` on.
__device__ __forceinline__ unsigned move(char *at, int mode, int lane) {
  unsigned found = 0;
  if (mode == LOAD || mode == LOAD_FIRST || mode == LOAD_NONE)
    for (int i = 0; i < 8; ++i) found += load16(at + i * 512 + lane * 16, mode);
  if (mode == LOAD_SECTOR) {
    unsigned v;
    asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(at + lane * 128) : "memory");
    found += v;
  }
  if (mode == STORE) for (int i = 0; i < 8; ++i) store16(at + i * 512 + lane * 16, lane);
  if (mode == STORE_SECTOR) for (int i = 0; i < 2; ++i) store16(at + i * 2048 + lane / 2 * 128 + lane % 2 * 16, lane);
  if (mode == STORE_WORD) asm volatile("st.global.u32 [%0], %1;" ::"l"(at + lane * 128), "r"(lane) : "memory");
  if (mode == UPDATE)
    for (int i = 0; i < 8; ++i) {
      unsigned v = load16(at + i * 512 + lane * 16, LOAD);
      store16(at + i * 512 + lane * 16, v);
    }
  if (mode == ADD) asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(at + lane * 128), "r"(1) : "memory");
  return found;
}

__device__ __forceinline__ void timed(const char *at, unsigned read_to, int last, Counts &sum, bool counts) {
  unsigned v;
  long long begin = clock64();
  if (last) asm volatile("ld.global.L1::evict_last.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  else asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(read_to), "r"(v) : "memory");  // clock64 waits for what it reads
  long long took = clock64() - begin;
  if (counts) { sum.hits += took < HIT; sum.loads += 1; sum.cycles += took; }
}

__global__ void room(char *data, char *set, int lines, int kind, int fresh, int mode, Counts *counts) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  __shared__ unsigned read[32 * WARPS];
  unsigned read_to = (unsigned)__cvta_generic_to_shared(read) + threadIdx.x * 4, found = 0;
  char *from = data + blockIdx.x * EACH + warp * 4096;
  char *own = set + blockIdx.x * SET_EACH + (kind == SECTORS ? lane % 8 : lane) * 4;
  Counts sum{};
  for (int round = 0; round < ROUNDS; ++round) {
    for (int i = 0; i < fresh; i += CHUNK, from += CHUNK * 128) found += move(from, mode, lane);
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(read_to), "r"(found) : "memory");  // waits for what was loaded
    __syncthreads();
    for (int line = warp; line < lines; line += WARPS) {
      timed(own + line * 128, read_to, kind == LAST, sum, round >= ROUNDS / 3);
      if (kind == WRITTEN) asm volatile("st.global.u32 [%0], %1;" ::"l"(own + line * 128), "r"(round) : "memory");
    }
    __syncthreads();
  }
  if (lane == 0) counts[blockIdx.x * WARPS + warp] = sum;
  if (found == 77) sink = found;
}

__global__ void found(char *data, int fresh, int mode, int whole, Counts *counts) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  __shared__ unsigned read[32 * WARPS];
  unsigned read_to = (unsigned)__cvta_generic_to_shared(read) + threadIdx.x * 4, kept = 0;
  char *from = data + blockIdx.x * EACH + warp * 4096;
  Counts sum{};
  for (int round = 0; round < ROUNDS; ++round) {
    for (int i = 0; i < fresh; i += CHUNK) kept += move(from + i * 128, mode, lane);
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(read_to), "r"(kept) : "memory");  // waits for what was loaded
    __syncthreads();
    for (int i = 0; i < fresh; i += CHUNK)
      for (int line = 0; line < 32; ++line)
        timed(from + i * 128 + line * 128 + (whole ? lane : mode == STORE_WORD ? 0 : lane % 8) * 4, read_to, 0, sum, true);
    __syncthreads();
    from += fresh * 128;
  }
  if (lane == 0) counts[blockIdx.x * WARPS + warp] = sum;
  if (kept == 77) sink = kept;
}

// A CTA loads `shared_kib` that those of its row (blockIdx.y) load too and `own_kib` of its own, and stores as much.
struct Where { unsigned sm, begin; };
__global__ void order(const char *shared, char *data, int shared_kib, int own_kib, Where *where) {
  unsigned sm, found = 0;
  long long begin;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  size_t number = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
  if (threadIdx.x == 0) where[number] = {sm, (unsigned)begin};
  for (int i = threadIdx.x * 16; i < shared_kib << 10; i += blockDim.x * 16) found += load16(shared + (size_t)blockIdx.y * (shared_kib << 10) + i, LOAD);
  for (int i = threadIdx.x * 16; i < own_kib << 10; i += blockDim.x * 16) {
    char *at = data + number * (own_kib << 10) + i;
    unsigned v = load16(at, LOAD);
    store16(at + DATA / 2, v + found);
  }
}

double share(const Counts *counts, double &cycles) {
  double hits = 0, loads = 0, took = 0;
  for (int i = 0; i < SMS * WARPS; ++i) hits += counts[i].hits, loads += counts[i].loads, took += counts[i].cycles;
  cycles = took / loads;
  return hits / loads;
}

int main(int, char **) {
  char *data, *set;
  Counts *counts;
  Where *where;
  FILE *raw = getenv("ORDER") ? fopen(getenv("ORDER"), "wb") : nullptr;
  CHECK(cudaMalloc(&data, DATA));
  CHECK(cudaMalloc(&set, SMS * SET_EACH));
  CHECK(cudaMallocHost(&counts, sizeof(Counts) * SMS * WARPS));
  CHECK(cudaMalloc(&where, sizeof(Where) << 17));
  CHECK(cudaMemset(set, 0, SMS * SET_EACH));
  CHECK(cudaMemset(data, 0, DATA));
  CHECK(cudaFuncSetAttribute(room, cudaFuncAttributeMaxDynamicSharedMemorySize, 226 << 10));
  CHECK(cudaFuncSetAttribute(found, cudaFuncAttributeMaxDynamicSharedMemorySize, 226 << 10));
  double cycles;
  for (int taken : {8, 132, 196}) {
    CHECK(cudaFuncSetAttribute(room, cudaFuncAttributePreferredSharedMemoryCarveout, (taken * 100 + 227) / 228));
    CHECK(cudaFuncSetAttribute(found, cudaFuncAttributePreferredSharedMemoryCarveout, (taken * 100 + 227) / 228));
    int kib = 256 - taken, bytes = (taken - 3) << 10;
    auto line = [&](const char *what, int kind, int lines, int mode, int fresh) {
      room<<<SMS, 32 * WARPS, bytes>>>(data, set, lines, kind, fresh, mode, counts);
      CHECK(cudaDeviceSynchronize());
      double hits = share(counts, cycles);
      printf("{\"what\": \"%s\", \"room_kib\": %d, \"set\": \"%s\", \"set_lines\": %d, \"fresh\": \"%s\", \"fresh_lines\": %d, \"rounds\": %d, \"hits\": %.4f, \"cycles\": %.1f}\n",
             what, kib, SETS[kind], lines, FRESH[mode], fresh, ROUNDS, hits, cycles);
    };
    for (int kind : {LINES, SECTORS, LAST})
      for (int reach : {20, 40, 50, 60, 70, 80, 90, 100, 120, 150, 200, 300, 400, 500}) line("alone", kind, kib * 8 * reach / 100, LOAD, 0);
    for (int kind : {LINES, SECTORS, WRITTEN, LAST})
      for (int mode = 0; mode < MODES; ++mode)
        for (int percent : {25, 50}) {
          if (kind != LINES && percent == 50) continue;
          if ((kind == WRITTEN || kind == LAST) && mode != LOAD && mode != STORE && mode != UPDATE) continue;
          for (int reach : {40, 60, 80, 100, 130, 170, 250, 400}) {
            int lines = kib * 8 * percent / 100, fresh = (kib * 8 * reach / 100 - lines) / CHUNK * CHUNK;
            if (fresh > 0) line("behind", kind, lines, mode, fresh);
          }
        }
    for (int mode : {LOAD, STORE, STORE_SECTOR, STORE_WORD, UPDATE})
      for (int whole : {0, 1})
        for (int percent : {10, 20, 40, 60, 80, 100, 150, 300}) {
          int fresh = kib * 8 * percent / 100 / CHUNK * CHUNK;
          if (!fresh) continue;
          found<<<SMS, 32 * WARPS, bytes>>>(data, fresh, mode, whole, counts);
          CHECK(cudaDeviceSynchronize());
          double hits = share(counts, cycles);
          printf("{\"what\": \"found\", \"room_kib\": %d, \"by\": \"%s\", \"lines\": %d, \"whole\": %s, \"rounds\": %d, \"hits\": %.4f, \"cycles\": %.1f}\n",
                 kib, FRESH[mode], fresh, whole ? "true" : "false", ROUNDS, hits, cycles);
        }
  }
  std::vector<Where> seen(1 << 17);
  for (int threads : {64, 128, 256, 1024})
    for (int heads : {8, 40})
      for (int shared_kib : {0, 4, 16})
        for (int own_kib : {2, 8}) {
          int rows = (threads < 256 ? 65536 : 16384) / heads;
          order<<<dim3(heads, rows), threads>>>(set, data, shared_kib, own_kib, where);
          CHECK(cudaDeviceSynchronize());
          CHECK(cudaMemcpy(seen.data(), where, sizeof(Where) * heads * rows, cudaMemcpyDeviceToHost));
          double distinct = 0, same = 0;
          for (int row = 0; row < rows; ++row) {
            std::set<unsigned> sms;
            for (int head = 0; head < heads; ++head) {
              sms.insert(seen[row * heads + head].sm);
              same += head && seen[row * heads + head].sm == seen[row * heads + head - 1].sm;
            }
            distinct += sms.size();
          }
          if (raw && heads == 40 && own_kib == 2 && shared_kib == 4) fwrite(seen.data(), sizeof(Where), (size_t)heads * rows, raw);
          printf("{\"what\": \"order\", \"threads\": %d, \"row_ctas\": %d, \"rows\": %d, \"shared_kib\": %d, \"own_kib\": %d, \"sms_a_row\": %.3f, \"next_on_same_sm\": %.4f}\n",
                 threads, heads, rows, shared_kib, own_kib, distinct / rows, same / rows / (heads - 1));
        }
  if (raw) fclose(raw);
}
