// What tile products, copies, loads and stores take from each other on one SM of an H200,
// how long a tile or a load waits there, and what multiplications cost.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 sm_sharing.cu -o sm_sharing
//   ./sm_sharing > sm_sharing.jsonl
//
// Each line on stdout is a measurement. Rates and cycles are those of an SM: means over the CTAs,
// one on an SM. Everything runs twice, and the second run counts.
//
// ptxas would serialise wgmma (see wgmma.cuh) with more than 384 threads, or if products stopped by
// a clock: the helpers stop by a flag.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include "check.cuh"
#include "wgmma.cuh"

enum Op { SS_16, SS_32, SS_64, RS_64, SS_128, RS_128, NONE, LDGSTS, BULK, LDS, STS, LDSM, LDG, SHFL, STSM };
const char *OPS[] = {"m64n16k16 SS", "m64n32k16 SS", "m64n64k16 SS", "m64n64k16 RS", "m64n128k16 SS", "m64n128k16 RS", "none",
                     "LDGSTS", "bulk", "LDS", "STS", "LDSM", "LDG", "SHFL", "STSM"};

constexpr int SMS = 132, WARPS = 12;
constexpr int ROW = 512, ROWS = 16;           // bytes a warp moves at a time; times between checks
constexpr int WORDS = 128;                    // bytes that a SHFL moves
constexpr int COPY = 4096;                    // bytes of a bulk copy
constexpr int BATCH = 32, PRODUCTS = 12800;   // products before a wait, and in all
constexpr int CYCLES = 200000, ROUNDS = 400;  // to measure for, and tiles to wait for
constexpr int TILES = 24 << 10;               // shared memory of A (64 x 64) and B (128 x 64)
constexpr int OWN = 8192, STRETCH = 1 << 16;  // a warp's own bytes of shared memory, and of data
constexpr int SHARED = TILES + WARPS * OWN + WARPS * 16 + 16;  // with barriers and the flag
constexpr int DATA = 8 << 20;                 // bytes to load, all of which L2 holds
constexpr size_t WRITTEN = (size_t)16 << 30;  // bytes to write, which L2 cannot hold
constexpr unsigned NEVER = 0x12345;           // a sum that does not occur

struct Count { long long cycles, amount; };   // amount: of products, bytes, tiles or loads
struct Roles { Op ops[WARPS]; };
struct Task { const char *data; unsigned own, barriers; volatile int *stop; bool until_stop; };

extern __shared__ __align__(1024) char memory[];
__device__ unsigned sink;

#define LOAD(name, v, constraint, from)                                        \
  asm volatile(name " {%0, %1, %2, %3}, [%4];"                                 \
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : constraint(from))

// Uses all four words: ptxas makes narrower loads of those whose words are not all used.
__device__ unsigned fold(uint4 v) { return v.x ^ v.y ^ v.z ^ v.w; }

__device__ void cp_async(unsigned to, const char *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ void init_barrier(unsigned barrier) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barrier) : "memory");
}

__device__ void wait_barrier(unsigned barrier, unsigned parity) {
  for (unsigned done = 0; !done;)
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"
                 " selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
}

__device__ void copy_bulk(unsigned to, const char *from, unsigned bytes, unsigned barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%3], %2;\n"
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

// ---- products, copies, loads and stores beside each other

template <Op OP> __device__ Count multiply(unsigned zero, volatile int *stop) {
  constexpr int N = OP == SS_16 ? 16 : OP == SS_32 ? 32 : OP == SS_64 || OP == RS_64 ? 64 : 128;
  constexpr int FLOATS = N / 2;
  unsigned a[4];  // zeros, but the compiler must keep them apart
  for (int i = 0; i < 4; ++i) a[i] = zero * (threadIdx.x * 4 + i + 1);
  float d[FLOATS] = {}, sum = 0;
  long long start = clock64();
#pragma unroll 1
  for (int done = 0; done < PRODUCTS; done += BATCH) {
    begin_products();
    fence_registers<FLOATS>(d);
#pragma unroll
    for (int i = 0; i < BATCH; ++i)
      multiply_next<N, OP != RS_64 && OP != RS_128>(d, a, memory, i);
    end_products();
    fence_registers<FLOATS>(d);
  }
  Count count{clock64() - start, PRODUCTS};
  *stop = 1;
  for (int i = 0; i < FLOATS; ++i) sum += d[i];
  if (sum == NEVER) sink = 1;
  return count;
}

// Moves ROWS rows, or makes a bulk copy, again and again. Each batch of loads is waited for (ptxas
// has about 6 of LDS and LDSM in flight, 16 of LDG); two batches of copies are in flight; stores
// are not waited for.
template <Op OP> __device__ Count move(Task task) {
  unsigned lane = threadIdx.x % 32, own = task.own + lane * 16, sum = 0, copies = 0;
  uint4 v[ROWS] = {make_uint4(lane, lane + 1, lane + 2, lane + 3)};
  long long start = clock64(), moved = 0;
#pragma unroll 1
  do {
    const char *from = task.data + moved % STRETCH + lane * 16;
    moved += OP == BULK ? COPY : ROWS * (OP == SHFL ? WORDS : ROW);
    if (OP == BULK && lane == 0) {
      unsigned odd = copies % 2;
      if (copies >= 2) wait_barrier(task.barriers + odd * 8, (copies / 2 - 1) % 2);
      copy_bulk(own + odd * COPY, from, COPY, task.barriers + odd * 8);
      ++copies;
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      if (OP == LDGSTS) cp_async(own + i * ROW, from + i * ROW);
      if (OP == LDG) LOAD("ld.global.cg.v4.u32", v[i], "l", from + i * ROW);
      if (OP == LDS) LOAD("ld.shared.v4.u32", v[i], "r", own + i * ROW);
      if (OP == LDSM) LOAD("ldmatrix.sync.aligned.m8n8.x4.shared.b16", v[i], "r", own + i * ROW);
      if (OP == SHFL)
        asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+r"(v[i].x));
      if (OP == STS)
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                     ::"r"(own + i * ROW), "r"(v[0].x), "r"(v[0].y), "r"(v[0].z), "r"(v[0].w));
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
      if (OP == STSM)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     ::"r"(own + i * ROW), "r"(v[0].x), "r"(v[0].y), "r"(v[0].z), "r"(v[0].w));
    if (OP == LDGSTS) asm volatile("cp.async.commit_group;\n cp.async.wait_group 1;" ::: "memory");
    if (OP == LDG || OP == LDS || OP == LDSM || OP == SHFL)
      for (int i = 0; i < ROWS; ++i) sum ^= fold(v[i]);
    __syncwarp();
  } while (task.until_stop ? !*task.stop : clock64() - start < CYCLES);
  if (OP == LDGSTS) asm volatile("cp.async.wait_all;" ::: "memory");
  for (unsigned i = copies < 2 ? 0 : copies - 2; i < copies; ++i)
    wait_barrier(task.barriers + i % 2 * 8, i / 2 % 2);
  if (sum == NEVER) sink = sum;
  return {clock64() - start, moved};
}

__global__ void __launch_bounds__(WARPS * 32, 1)
share_sm(Roles roles, const char *data, unsigned zero, Count *counts) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  volatile int *stop = (int *)(memory + SHARED - 16);
  Task task{data + (blockIdx.x % 8 * WARPS + warp) * STRETCH, address(memory) + TILES + warp * OWN,
            address(memory) + TILES + WARPS * OWN + warp * 16, stop, roles.ops[0] < NONE};
  for (int i = threadIdx.x; i < SHARED / 4; i += blockDim.x) ((int *)memory)[i] = 0;
  __syncthreads();
  if (lane < 2) init_barrier(task.barriers + lane * 8);
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  Count count{};
  switch (roles.ops[warp]) {
    case SS_16: count = multiply<SS_16>(zero, stop); break;
    case SS_32: count = multiply<SS_32>(zero, stop); break;
    case SS_64: count = multiply<SS_64>(zero, stop); break;
    case RS_64: count = multiply<RS_64>(zero, stop); break;
    case SS_128: count = multiply<SS_128>(zero, stop); break;
    case RS_128: count = multiply<RS_128>(zero, stop); break;
    case NONE: break;
    case LDGSTS: count = move<LDGSTS>(task); break;
    case BULK: count = move<BULK>(task); break;
    case LDS: count = move<LDS>(task); break;
    case STS: count = move<STS>(task); break;
    case LDSM: count = move<LDSM>(task); break;
    case LDG: count = move<LDG>(task); break;
    case SHFL: count = move<SHFL>(task); break;
    case STSM: count = move<STSM>(task); break;
  }
  if (lane == 0) counts[blockIdx.x * WARPS + warp] = count;
}

// ---- a CTA waits for a tile that L2 holds, from a barrier until its thread 0 may use all of it

template <Op OP, int THREADS, int PIECES>
__global__ void __launch_bounds__(THREADS) wait_for_tile(const char *data, Count *counts) {
  constexpr int PIECE = THREADS * 16, TILE = PIECES * PIECE;
  unsigned to = address(memory), barrier = to + TILE, found = 0, sum = 0;
  long long total = 0;
  uint4 v[PIECES];
  if (threadIdx.x == 0) init_barrier(barrier);
  asm volatile("fence.proxy.async;" ::: "memory");
#pragma unroll 1
  for (int round = 0; round < ROUNDS; ++round) {
    const char *tile = data + (blockIdx.x * 37 + round) * TILE % DATA;
    const char *from = tile + threadIdx.x * 16;
    __syncthreads();
    long long start = clock64();
    if (OP == BULK && threadIdx.x == 0) copy_bulk(to, tile, TILE, barrier);
    if (OP == BULK) wait_barrier(barrier, round % 2);
#pragma unroll
    for (int i = 0; i < PIECES; ++i) {
      if (OP == LDGSTS) cp_async(to + i * PIECE + threadIdx.x * 16, from + i * PIECE);
      if (OP == LDG) LOAD("ld.global.cg.v4.u32", v[i], "l", from + i * PIECE);
    }
    if (OP == LDGSTS) asm volatile("cp.async.wait_all;" ::: "memory");
    for (int i = 0; OP == LDG && i < PIECES; ++i) sum ^= fold(v[i]);
    if (OP != BULK) found |= __syncthreads_or(sum == NEVER);  // a barrier that needs the words
    total += clock64() - start;
  }
  if (found) sink = found;
  if (threadIdx.x == 0) counts[blockIdx.x] = {total, ROUNDS};
}

// ---- the last warp loads a row and waits, over and over; the others write or copy 8 rows a period

template <bool COPIES>
__global__ void load_beside(const char *data, unsigned data_bytes, char *others,
                            unsigned bytes_a_warp, int period, Count *counts) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, movers = blockDim.x / 32 - 1;
  unsigned at = warp < movers ? 0 : blockIdx.x * 7919 * ROW % data_bytes;
  unsigned own = address(memory) + (warp < movers ? 1 + warp * 8 : 0) * ROW + lane * 16;
  char *to = others + (size_t)(blockIdx.x * movers + warp) * bytes_a_warp;
  long long start = clock64(), now = start, total = 0, amount = 0;
  while (now - start < 2 * CYCLES) {
    long long begin = clock64();
    if (warp == movers) {
      cp_async(own, data + at + lane * 16);
      asm volatile("cp.async.wait_all;" ::: "memory");
      now = clock64();
      total += now - begin;
      amount += 1;
      at = at + ROW < data_bytes ? at + ROW : 0;
    } else {
      for (int i = 0; i < 8; ++i) {
        if (COPIES)
          cp_async(own + i * ROW, to + at + lane * 16);
        else
          *(uint4 *)(to + at + lane * 16) = make_uint4(lane, 1, 2, 3);
        at = at + ROW < bytes_a_warp ? at + ROW : 0;
      }
      if (COPIES) asm volatile("cp.async.wait_all;" ::: "memory");
      do now = clock64();
      while (now - begin < period);
      total = now - start;
      amount += 8 * ROW;
    }
  }
  if (lane == 0) counts[blockIdx.x * (movers + 1) + warp] = {total, amount};
}

// ---- four instructions in turn (ptxas orders some anew), on 8 registers in turn

enum Instruction { HI, LO, LOP3, FMA };
const char *INSTRUCTIONS[] = {"mul.hi.u32", "mul.lo.u32", "lop3.b32", "fma.rn.f32"};
constexpr int LOOPS = 64, UNROLLED = 64;

template <Instruction... INSTRUCTION>
__global__ void compute_in_turn(unsigned c, unsigned e, Count *counts) {
  constexpr Instruction TURN[] = {INSTRUCTION...};
  unsigned x[8], sum = 0;
  float f[8];
  for (int i = 0; i < 8; ++i) f[i] = x[i] = threadIdx.x * 17 + i;
  __syncthreads();
  long long start = clock64();
#pragma unroll 1
  for (int loop = 0; loop < LOOPS; ++loop)
#pragma unroll
    for (int i = 0; i < UNROLLED; ++i) {
      Instruction now = TURN[i % 4];
      if (now == HI) asm volatile("mul.hi.u32 %0, %0, %1;" : "+r"(x[i % 8]) : "r"(c));
      if (now == LO) asm volatile("mul.lo.u32 %0, %0, %1;" : "+r"(x[i % 8]) : "r"(c));
      if (now == LOP3)
        asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(x[i % 8]) : "r"(c), "r"(e));
      if (now == FMA) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(f[i % 8]) : "f"(1.5f));
    }
  __syncthreads();
  Count count{clock64() - start, LOOPS * UNROLLED};
  for (int i = 0; i < 8; ++i) sum += x[i] + (unsigned)f[i];
  if (sum == NEVER) sink = sum;
  if (threadIdx.x == 0) counts[0] = count;
}

// ---- the host

char *data, *written;
Count *counts;

// Each CTA fills in `counted` counts.
template <typename... P, typename... A>
std::vector<Count> measure(void (*kernel)(P...), int ctas, int threads, int shared, int counted,
                           A... arguments) {
  std::vector<Count> result(ctas * counted);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  for (int i = 0; i < 2; ++i) kernel<<<ctas, threads, shared>>>(arguments..., counts);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(result.data(), counts, sizeof(Count) * ctas * counted, cudaMemcpyDefault));
  return result;
}

// What the warps [first, last) of the `counted` of a CTA do in a cycle.
double rate(const std::vector<Count> &result, int counted, int first, int last) {
  double sum = 0;
  for (int i = 0; i < (int)result.size(); ++i)
    if (i % counted >= first && i % counted < last && result[i].cycles)
      sum += (double)result[i].amount / result[i].cycles;
  return sum / (result.size() / counted);
}

// Products take four warps, and are counted by one of them.
void share(Op first, int warps, Op second, int second_warps, int ctas) {
  bool products = first < NONE;
  Roles roles;
  for (int i = 0; i < WARPS; ++i)
    roles.ops[i] = i < warps ? first : i < warps + second_warps ? second : NONE;
  auto result = measure(share_sm, ctas, WARPS * 32, SHARED, WARPS, roles, data, 0);
  double does = rate(result, WARPS, 0, products ? 1 : warps);
  printf("{\"what\": \"%s\", \"first\": \"%s\", \"first_warps\": %d, \"second\": \"%s\", "
         "\"second_warps\": %d, \"ctas\": %d, \"%s\": %.2f, \"second_bytes_per_cycle\": %.2f}\n",
         products ? "products" : "others", OPS[first], warps, OPS[second], second_warps, ctas,
         products ? "cycles_per_product" : "first_bytes_per_cycle", products ? 1 / does : does,
         rate(result, WARPS, warps, WARPS));
}

template <Op OP, int PIECES, int TILE_WARPS> void tile(int ctas) {
  constexpr int THREADS = TILE_WARPS * 32, TILE = THREADS * PIECES * 16;
  auto result = measure(wait_for_tile<OP, THREADS, PIECES>, ctas, THREADS, TILE + 16, 1, data);
  printf("{\"what\": \"tile\", \"by\": \"%s\", \"warps\": %d, \"tile_bytes\": %d, \"ctas\": %d, "
         "\"latency_cycles\": %.1f}\n", OPS[OP], TILE_WARPS, TILE, ctas, 1 / rate(result, 1, 0, 1));
}

template <Op OP> void tiles(int ctas) {
  tile<OP, 1, 4>(ctas), tile<OP, 2, 4>(ctas), tile<OP, 4, 4>(ctas), tile<OP, 8, 4>(ctas);
  tile<OP, 1, 8>(ctas), tile<OP, 2, 8>(ctas), tile<OP, 4, 8>(ctas), tile<OP, 8, 8>(ctas);
}

// The movers of a CTA offer so many bytes a cycle, or all they can if it is 0.
template <bool COPIES>
void beside(int ctas, int movers, int offered, size_t moved_bytes, int data_bytes) {
  int warps = movers + 1, period = offered ? movers * 8 * ROW / offered : 0;
  unsigned bytes_a_warp = movers ? moved_bytes / (SMS * movers) / ROW * ROW : 0;
  auto result = measure(load_beside<COPIES>, ctas, warps * 32, (1 + movers * 8) * ROW, warps, data,
                        data_bytes, written, bytes_a_warp, period);
  printf("{\"what\": \"load beside %s\", \"ctas\": %d, \"movers\": %d, \"period_cycles\": %d, "
         "\"moved_region_bytes\": %zu, \"loaded_region_bytes\": %d, \"latency_cycles\": %.1f, "
         "\"moved_bytes_per_cycle\": %.2f}\n", COPIES ? "copies" : "stores", ctas, movers, period,
         moved_bytes, data_bytes, 1 / rate(result, warps, movers, warps),
         rate(result, warps, 0, movers));
}

template <Instruction A, Instruction B, Instruction C, Instruction D> void instructions() {
  for (int warps : {1, 4, 16}) {  // cycles of a sub-core, which has a quarter of the warps
    auto kernel = compute_in_turn<A, B, C, D>;
    auto result = measure(kernel, 1, warps * 32, 0, 1, 0x9E3779B9u, 0xBB67AE85u);
    printf("{\"what\": \"instructions\", \"in_turn\": [\"%s\", \"%s\", \"%s\", \"%s\"], "
           "\"warps\": %d, \"cycles_per_instruction\": %.3f}\n", INSTRUCTIONS[A], INSTRUCTIONS[B],
           INSTRUCTIONS[C], INSTRUCTIONS[D], warps,
           1 / rate(result, 1, 0, 1) / std::max(1, warps / 4));
  }
}

int main() {
  CHECK(cudaMalloc(&data, DATA));
  CHECK(cudaMemset(data, 0, DATA));
  CHECK(cudaMalloc(&written, WRITTEN));
  CHECK(cudaMalloc(&counts, SMS * 32 * sizeof(Count)));
  for (int ctas : {16, SMS}) {  // 16 do not keep L2 busy
    for (Op product : {SS_16, SS_32, SS_64, RS_64, SS_128, RS_128}) {
      share(product, 4, NONE, 0, ctas);
      for (int warps : {1, 4}) share(product, 8, SHFL, warps, ctas);  // of two warpgroups
      for (Op op : {LDGSTS, BULK, LDS, STS, LDSM, LDG, SHFL})
        for (int warps : {1, 4, 8}) share(product, 4, op, warps, ctas);
    }
    for (Op op : {LDGSTS, BULK, LDS, STS, LDSM, LDG, SHFL, STSM}) share(op, 6, NONE, 0, ctas);
    share(STSM, 6, LDSM, 6, ctas), share(STSM, 6, LDS, 6, ctas), share(STS, 6, LDSM, 6, ctas);
    share(SHFL, 6, LDSM, 6, ctas), share(STSM, 6, SHFL, 6, ctas);
    for (Op op : {LDS, STS, LDSM, SHFL}) share(LDGSTS, 6, op, 6, ctas);
    for (Op op : {LDS, STS}) share(SHFL, 6, op, 6, ctas);
    share(SHFL, 1, NONE, 0, ctas), share(LDGSTS, 8, SHFL, 1, ctas), share(STS, 8, SHFL, 1, ctas);
  }
  for (int ctas : {1, SMS}) tiles<LDGSTS>(ctas), tiles<LDG>(ctas), tiles<BULK>(ctas);
  for (int ctas : {1, SMS})
    for (int data_bytes : {128 << 10, 2 << 20}) {  // streaming may drive the larger from L2
      beside<false>(ctas, 0, 0, 0, data_bytes);
      for (int movers : {4, 16})
        for (int offered : {8, 16, 0})
          for (size_t bytes : {(size_t)16 << 20, WRITTEN})
            beside<false>(ctas, movers, offered, bytes, data_bytes);
    }
  for (int ctas : {1, SMS})
    for (int movers : {1, 2, 4, 8})
      for (int offered : {4, 8, 16, 24, 32, 48, 0})
        beside<true>(ctas, movers, offered, (size_t)16 << 20, 2 << 20);
  instructions<HI, HI, HI, HI>(), instructions<LO, LO, LO, LO>();
  instructions<LOP3, LOP3, LOP3, LOP3>(), instructions<FMA, FMA, FMA, FMA>();
  instructions<HI, LO, HI, LO>(), instructions<HI, LOP3, LO, LOP3>();
  instructions<HI, LOP3, HI, LOP3>(), instructions<LO, LOP3, LO, LOP3>();
  instructions<HI, FMA, HI, FMA>(), instructions<LO, FMA, LO, FMA>();
}
