// Whether instructions of one sub-core of an SM that go to different units wait for each other:
// how long MUFU, SHFL and LDS take in a row, one after the other, while other warps, of the same
// sub-core or of another one, keep a unit busy; and those, and many that do not need each other,
// while one to three warpgroups keep the tensor cores busy with tile products.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 mio_queue.cu -o mio_queue
//   ./mio_queue > mio_queue.jsonl
//
// Each line on stdout is a measurement: cycles from one of the first warp's instructions to the
// next, which needs its result, the mean over the CTAs, one on an SM; and how many instructions a
// cycle the others issue there.
#include <cstdio>
#include <vector>
#include "check.cuh"
#include "wgmma.cuh"

enum Op { NONE, MUFU, SHFL, LDS, STS, FFMA, HMMA };
const char *OPS[] = {"none", "MUFU", "SHFL", "LDS", "STS", "FFMA", "HMMA"};

constexpr int SMS = 132, WARPS = 16, SUB_CORES = 4;
constexpr int ROW = 16, TIMES = 8192;  // instructions between checks; of the first warp
constexpr int CHAINS = 512;            // of ROW products
constexpr int TILES = 24 << 10;        // shared memory of A (64 x 64) and B (128 x 64)
constexpr float NEVER = 12345;         // a sum that does not occur

struct Count { long long cycles, issued; };

extern __shared__ __align__(1024) char memory[];
__device__ float sink;
__shared__ float words[WARPS * 32];
__shared__ volatile int stop;

__device__ float mufu(float x) {
  asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
__device__ float shuffled(float x) {
  asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+f"(x));
  return x;
}
__device__ unsigned loaded(unsigned at) {
  asm volatile("ld.volatile.shared.u32 %0, [%0];" : "+r"(at));
  return at;
}

// One after the other, each with the result of the one before: so many, or until somebody says stop.
template <Op OP> __device__ Count probe(float x, int times = TIMES) {
  unsigned at = __cvta_generic_to_shared(&words[threadIdx.x]);
  *(unsigned *)&words[threadIdx.x] = at;
  __syncwarp();
  long long start = clock64(), done;
#pragma unroll 1
  for (done = 0; times ? done < times : !stop; done += ROW)
#pragma unroll
    for (int j = 0; j < ROW; ++j) {
      if (OP == MUFU) x = mufu(x);
      if (OP == SHFL) x = shuffled(x);
      if (OP == LDS) at = loaded(at);
    }
  Count count{clock64() - start, done};
  if (x + at == NEVER) sink = x;
  return count;
}

// Many that do not need each other, until the first warp is done.
template <Op OP> __device__ Count load(float x) {
  float v[ROW];
  unsigned own = __cvta_generic_to_shared(&words[threadIdx.x]);
  for (int i = 0; i < ROW; ++i) v[i] = x + i;
  long long start = clock64(), issued = 0;
  while (!stop) {
    issued += ROW;
#pragma unroll
    for (int i = 0; i < ROW; ++i) {
      if (OP == MUFU) v[i] = mufu(v[i]);
      if (OP == SHFL) v[i] = shuffled(v[i]);
      if (OP == LDS) asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(v[i]) : "r"(own));
      if (OP == STS) asm volatile("st.volatile.shared.f32 [%0], %1;" ::"r"(own), "f"(v[i]));
      if (OP == FFMA) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(v[i]));
      if (OP == HMMA && i % 4 == 0)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};"
                     : "+f"(v[i]), "+f"(v[i + 1]), "+f"(v[i + 2]), "+f"(v[i + 3]) : "r"(own));
    }
  }
  Count count{clock64() - start, OP == HMMA ? issued / 4 : issued};
  float sum = 0;
  for (int i = 0; i < ROW; ++i) sum += v[i];
  if (sum == NEVER) sink = sum;
  return count;
}

__global__ void __launch_bounds__(WARPS * 32, 1)
probe_beside(Op probed, Op other, int others, int sub_core, float x, Count *counts) {
  int warp = threadIdx.x / 32;
  Count count{};
  if (threadIdx.x == 0) stop = 0;
  __syncthreads();
  if (warp == 0) {
    if (probed == MUFU) count = probe<MUFU>(x);
    if (probed == SHFL) count = probe<SHFL>(x);
    if (probed == LDS) count = probe<LDS>(x);
    stop = 1;
  } else if (warp % SUB_CORES == sub_core && (warp - 1) / SUB_CORES < others) {
    if (other == MUFU) count = load<MUFU>(x);
    if (other == SHFL) count = load<SHFL>(x);
    if (other == LDS) count = load<LDS>(x);
    if (other == STS) count = load<STS>(x);
    if (other == FFMA) count = load<FFMA>(x);
    if (other == HMMA) count = load<HMMA>(x);
  }
  if (threadIdx.x % 32 == 0) counts[blockIdx.x * WARPS + warp] = count;
}

// Warpgroups 1 and up make chains of products, each of which they wait for; the first warps of
// warpgroup 0, one or four, do something else meanwhile.
template <int N, bool A_SHARED>
__global__ void __launch_bounds__(WARPS * 32, 1)
probe_beside_products(Op probed, bool row, int probes, float x, unsigned zero, Count *counts) {
  int warp = threadIdx.x / 32;
  Count count{};
  if (threadIdx.x == 0) stop = 0;
  for (int i = threadIdx.x; i < TILES / 4; i += blockDim.x) ((int *)memory)[i] = 0;
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (warp >= 4) {
    unsigned a[4];
    float d[N / 2] = {}, sum = 0;
    for (int i = 0; i < 4; ++i) a[i] = zero * (threadIdx.x * 4 + i + 1);
    long long start = clock64();
#pragma unroll 1
    for (int done = 0; done < CHAINS; ++done) {
      begin_products();
      fence_registers<N / 2>(d);
#pragma unroll
      for (int i = 0; i < ROW; ++i) multiply_next<N, A_SHARED>(d, a, memory, i);
      end_products();
      fence_registers<N / 2>(d);
    }
    count = {clock64() - start, CHAINS * ROW};
    stop = 1;
    for (int i = 0; i < N / 2; ++i) sum += d[i];
    if (sum == NEVER) sink = sum;
  } else if (warp < probes) {
    if (probed == MUFU) count = row ? probe<MUFU>(x, 0) : load<MUFU>(x);
    if (probed == SHFL) count = row ? probe<SHFL>(x, 0) : load<SHFL>(x);
    if (probed == LDS) count = row ? probe<LDS>(x, 0) : load<LDS>(x);
    if (probed == STS) count = load<STS>(x);
    if (probed == FFMA) count = load<FFMA>(x);
  }
  if (threadIdx.x % 32 == 0) counts[blockIdx.x * WARPS + warp] = count;
}

template <int N, bool A_SHARED> void beside_products(Count *counts) {
  auto kernel = probe_beside_products<N, A_SHARED>;
  std::vector<Count> found(SMS * WARPS);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, TILES));
  for (int groups : {1, 2})
    for (Op probed : {NONE, MUFU, SHFL, LDS, STS, FFMA})
      for (bool row : {true, false})
        for (int probes : {1, 4}) {
          if (row && (probed == STS || probed == FFMA)) continue;
          if (probed == NONE && (row || probes > 1)) continue;
          for (int i = 0; i < 2; ++i)
            kernel<<<SMS, (groups + 1) * 128, TILES>>>(probed, row, probes, 0, 0, counts);
          CHECK(cudaGetLastError());
          CHECK(cudaMemcpy(found.data(), counts, sizeof(Count) * found.size(), cudaMemcpyDefault));
          double cycles = 0, products = 0;
          for (int cta = 0; cta < SMS; ++cta) {
            Count &one = found[cta * WARPS], &other = found[cta * WARPS + 4];
            cycles += one.issued ? (double)one.cycles / one.issued / SMS : 0;
            products += (double)other.cycles / other.issued / SMS / groups;
          }
          printf("{\"probed\": \"%s\", \"in_a_row\": %s, \"probing_warps\": %d, \"beside\": "
                 "\"m64n%dk16 %s\", \"warpgroups\": %d, \"cycles\": %.2f, "
                 "\"cycles_per_product\": %.2f}\n", OPS[probed], row ? "true" : "false",
                 probed == NONE ? 0 : probes, N, A_SHARED ? "SS" : "RS", groups, cycles, products);
        }
}

int main() {
  Count *counts;
  std::vector<Count> found(SMS * WARPS);
  CHECK(cudaMalloc(&counts, sizeof(Count) * found.size()));
  for (Op probed : {MUFU, SHFL, LDS})
    for (Op other : {NONE, MUFU, SHFL, LDS, STS, FFMA, HMMA})
      for (int sub_core : {0, 1})
        for (int others : {1, 2, 3}) {
          if (other == NONE && (others > 1 || sub_core)) continue;
          for (int i = 0; i < 2; ++i)
            probe_beside<<<SMS, WARPS * 32>>>(probed, other, others, sub_core, 0, counts);
          CHECK(cudaGetLastError());
          CHECK(cudaMemcpy(found.data(), counts, sizeof(Count) * found.size(), cudaMemcpyDefault));
          double cycles = 0, rate = 0;
          for (int i = 0; i < (int)found.size(); ++i)
            if (i % WARPS == 0)
              cycles += (double)found[i].cycles / found[i].issued / SMS;
            else if (found[i].cycles)
              rate += (double)found[i].issued / found[i].cycles / SMS;
          printf("{\"probed\": \"%s\", \"beside\": \"%s\", \"warps\": %d, \"same_sub_core\": %s, "
                 "\"latency_cycles\": %.2f, \"others_per_cycle\": %.3f}\n", OPS[probed], OPS[other],
                 other == NONE ? 0 : others, sub_core ? "false" : "true", cycles, rate);
        }
  beside_products<16, true>(counts), beside_products<64, true>(counts);
  beside_products<64, false>(counts), beside_products<128, false>(counts);
}
