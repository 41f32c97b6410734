// What a warpgroup's matmuls (wgmma m64nNk16, fp16 into fp32) take where N is small: streams by where A comes from, which
// way operands lie, how often they are waited for, and what runs beside them; and the turns of attention made of them.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 wgmma_narrow.cu -o wgmma_narrow
//   ./wgmma_narrow > wgmma_narrow.jsonl
//
// Each line on stdout is a measurement, all SMs alike. Streams: cycles of an SM for one matmul of all its warpgroups
// (`chains`: accumulators used in turns; `batch`: matmuls before each wait), and bytes a cycle that four more warps of
// each CTA move. Turns: cycles of an SM for one turn of each of its CTAs. `rows` pass by in a turn: backward multiplies
// twice 64 x 128 by 128 x rows, both operands in shared memory, and twice 64 x rows by rows x 128, A in registers;
// forward once each. A turn has a barrier at either end, copies of its rows (or not), and arithmetic between (or not).
//
// Predicted of the streams by tensor_cycles, max(N / 2, N / 4 + 16 where A is in shared memory, 13): 20 20 24 32 64 128 for
// N = 8 to 256, 13 13 16 32 64 128 with A in registers, whichever way operands lie and however many warpgroups there are.
// So it is on an H200 (2026-11-26), with up to 6 cycles less for three or four warpgroups; a wait adds 70 to 78 cycles with
// A in shared memory, 97 with A in registers. Of turns without copies (the machine code in the model's SM): 2 % less to 4 %
// more for one CTA, 6 % less to 4 % more for two without arithmetic; for two with arithmetic 17 % (forward) and 11 % less
// (backward) where m64n32k16 held the register port for N / 2 of its 24 cycles, 1 % less and 5 % more where for all of them.
#include <cstdio>
#include <type_traits>
#include <vector>
#include "check.cuh"
#include "wgmma.cuh"

enum A { SMEM_K, SMEM_M, REGISTERS };  // K-major or M-major in shared memory, or in registers
const char *AS[] = {"shared", "shared, M-major", "registers"};
enum Helper { NONE, COPY, LDSM, STS, FFMA, LOP3, EX2 };
const char *HELPERS[] = {"none", "LDGSTS", "LDSM", "STS", "FFMA", "LOP3", "MUFU.EX2"};

constexpr int SMS = 132, SM_SHARED = 228 << 10, RESERVED = 1 << 10;
constexpr int A_TILE = 64 * 128, B_TILE = 256 * 128, ROW = 512, BURST = 8, HELPERS_TILE = 4 * BURST * ROW;
constexpr int STREAM = A_TILE + B_TILE, WITH_HELPERS = STREAM + HELPERS_TILE + 16;
constexpr int MATMULS = 4096, TURNS = 512, REGION = 1 << 15, REGIONS = 256;  // data: 8 MB, which L2 holds
constexpr float NEVER = 12345;  // a sum that does not occur

struct Count { long long cycles, amount, bytes, moving; };
extern __shared__ __align__(1024) char memory[];
__device__ float sink;

#define NAMES_8 "%0, %1, %2, %3"
#define NAMES_256                                                                                                      \
  NAMES_128 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, "   \
            "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, " \
            "%104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, "   \
            "%121, %122, %123, %124, %125, %126, %127"
#define FLOATS_8 FLOATS_4(0)
#define FLOATS_256                                                                                                     \
  FLOATS_128, FLOATS_4(64), FLOATS_4(68), FLOATS_4(72), FLOATS_4(76), FLOATS_4(80), FLOATS_4(84), FLOATS_4(88),        \
      FLOATS_4(92), FLOATS_4(96), FLOATS_4(100), FLOATS_4(104), FLOATS_4(108), FLOATS_4(112), FLOATS_4(116),           \
      FLOATS_4(120), FLOATS_4(124)
// Operands behind the n / 2 sums, by number: the two descriptors, or four registers and one.
#define BY_N(n, p0, p1, p2, p3, p4)                                                                                    \
  if constexpr (N == n && FROM == SMEM_K && !B_N) WGMMA(n, "%" #p0 ", %" #p1 ", 1, 1, 1, 0, 0;", "l"(at), "l"(bt));    \
  if constexpr (N == n && FROM == SMEM_M && !B_N) WGMMA(n, "%" #p0 ", %" #p1 ", 1, 1, 1, 1, 0;", "l"(at), "l"(bt));    \
  if constexpr (N == n && FROM == SMEM_K && B_N) WGMMA(n, "%" #p0 ", %" #p1 ", 1, 1, 1, 0, 1;", "l"(at), "l"(bt));     \
  if constexpr (N == n && FROM == SMEM_M && B_N) WGMMA(n, "%" #p0 ", %" #p1 ", 1, 1, 1, 1, 1;", "l"(at), "l"(bt));     \
  if constexpr (N == n && FROM == REGISTERS && !B_N)                                                                   \
    WGMMA(n, "{%" #p0 ", %" #p1 ", %" #p2 ", %" #p3 "}, %" #p4 ", 1, 1, 1, 0;", A_REGISTERS, "l"(bt));                 \
  if constexpr (N == n && FROM == REGISTERS && B_N)                                                                    \
    WGMMA(n, "{%" #p0 ", %" #p1 ", %" #p2 ", %" #p3 "}, %" #p4 ", 1, 1, 1, 1;", A_REGISTERS, "l"(bt));

template <int N, A FROM, bool B_N> __device__ __forceinline__ void multiply(float *d, const unsigned *a, size_t at, size_t bt) {
  BY_N(8, 4, 5, 6, 7, 8) BY_N(16, 8, 9, 10, 11, 12) BY_N(32, 16, 17, 18, 19, 20) BY_N(64, 32, 33, 34, 35, 36)
  BY_N(128, 64, 65, 66, 67, 68) BY_N(256, 128, 129, 130, 131, 132)
}

// Rows of 128 bytes, swizzled, in groups of 8; `further` bytes from 64 columns to the next 64, where these lie along rows.
// `at` and what is added to it count in 16 bytes, in the lower word.
__device__ __forceinline__ size_t tile(unsigned at, int further = 16) {
  return LAYOUT >> 32 << 32 | at + ((unsigned)further >> 4 << 16);
}
template <bool ALONG_K> __device__ int step(int i) { return ALONG_K ? i * 2 : i * 128; }

__device__ void copy16(unsigned to, const char *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
template <int LEFT> __device__ void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory"); }
__device__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

__device__ void zero_memory(int bytes) {
  for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) ((int *)memory)[i] = 0;
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
}

// Moves BURST rows every `period` cycles until told to stop.
template <Helper WHAT> __device__ Count help(int period, const char *data, volatile int *stop) {
  unsigned own = address(memory) + STREAM + (threadIdx.x / 32 - 4) * BURST * ROW + threadIdx.x % 32 * 16;
  uint4 v[BURST] = {{1, 2, 3, 4}};
  const char *from = data + (blockIdx.x % REGIONS) * REGION + threadIdx.x % 32 * 16;
  long long start = clock64(), moved = 0, next = start;
  unsigned sum = 0;
  while (!*stop) {
#pragma unroll
    for (int i = 0; i < BURST; ++i) {
      if (WHAT == COPY) copy16(own + i * ROW, from + moved % REGION + i * ROW);
      if (WHAT == STS) asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(own + i * ROW), "r"(v[0].x), "r"(v[0].y), "r"(v[0].z), "r"(v[0].w));
      if (WHAT == LDSM) asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w) : "r"(own + i * ROW));
    }
    if (WHAT == LDSM)
      for (int i = 0; i < BURST; ++i) sum ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
    moved += BURST * ROW;
    if (WHAT == COPY) commit_copies(), wait_copies<1>();
    for (next += period; clock64() < next && !*stop;) {}
  }
  wait_copies<0>();
  if (sum == 0x12345) sink = sum;
  return {0, 0, moved, clock64() - start};
}

// Repeats an instruction until told to stop; 128 B each stand for its words. Alone FFMA and LOP3 take 1 to 2 cycles, EX2 8.
template <Helper WHAT> __device__ Count calculate(volatile int *stop, float c) {
  float v[16];
  for (int i = 0; i < 16; ++i) v[i] = c * i;
  long long start = clock64(), done = 0;
  while (!*stop) {
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      if (WHAT == FFMA) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(v[i % 16]) : "f"(c));
      if (WHAT == LOP3) asm volatile("lop3.b32 %0, %0, %1, %1, 0x96;" : "+f"(v[i % 16]) : "f"(c));
      if (WHAT == EX2) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(v[i % 16]));
    }
    done += 64;
  }
  Count count{0, 0, done * 128, clock64() - start};
  for (int i = 1; i < 16; ++i) v[0] += v[i];
  if (v[0] == NEVER) sink = v[0];
  return count;
}

template <int N, A FROM, bool B_N, int CHAINS, int BATCH>
__global__ void __launch_bounds__(256) stream(Helper helper, int period, const char *data, unsigned zero, Count *counts) {
  volatile int *stop = (int *)(memory + WITH_HELPERS - 16);
  zero_memory(blockDim.x > 128 ? WITH_HELPERS : STREAM);
  Count count{};
  if (threadIdx.x < 128) {
    float d[CHAINS][N / 2] = {}, sum = 0;
    unsigned a[4], at = address(memory) >> 4;
    for (int i = 0; i < 4; ++i) a[i] = zero * (threadIdx.x * 4 + i + 1);
    long long start = clock64();
#pragma unroll 1
    for (int done = 0; done < MATMULS; done += BATCH) {
      begin_products();
      for (int c = 0; c < CHAINS; ++c) fence_registers<N / 2>(d[c]);
#pragma unroll
      for (int i = 0; i < BATCH; ++i)
        multiply<N, FROM, B_N>(d[i % CHAINS], a, tile(at + step<FROM != SMEM_M>(i % 4)), tile(at + A_TILE / 16 + step<!B_N>(i % 4), 64 * 128));
      end_products();
      for (int c = 0; c < CHAINS; ++c) fence_registers<N / 2>(d[c]);
    }
    count = {clock64() - start, MATMULS, 0, 0};
    if (blockDim.x > 128) *stop = 1;
    for (int i = 0; i < CHAINS * N / 2; ++i) sum += d[i / (N / 2)][i % (N / 2)];
    if (sum == NEVER) sink = sum;
  } else {
    float c = (zero * threadIdx.x + 1) * 0.5f;
    count = helper == FFMA ? calculate<FFMA>(stop, c) : helper == LOP3 ? calculate<LOP3>(stop, c) : helper == EX2 ? calculate<EX2>(stop, c) : helper == COPY ? help<COPY>(period, data, stop) : helper == STS ? help<STS>(period, data, stop) : help<LDSM>(period, data, stop);
  }
  if (threadIdx.x % 128 == 0) counts[blockIdx.x * 2 + threadIdx.x / 128] = count;
}

// a = half(f(d)), as the A of ROWS / 16 matmuls.
template <int ROWS, bool ARITHMETIC> __device__ void to_operand(float *d, const float *p, unsigned (*a)[4], float c) {
#pragma unroll
  for (int i = 0; i < ROWS / 2; ++i)
    if (ARITHMETIC && !p) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(d[i] = d[i] * c - 1.0f));
    else if (ARITHMETIC) d[i] = p[i] * (d[i] - c);
#pragma unroll
  for (int i = 0; i < ROWS / 4; ++i)
    asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(a[i / 4][i % 4]) : "f"(d[2 * i + 1]), "f"(d[2 * i]));
}

// d (64 x ROWS) = rows of A (64 x 128) times rows that pass by, transposed.
template <int ROWS> __device__ void scores(float *d, unsigned a_at, unsigned b_at) {
#pragma unroll
  for (int i = 0; i < 8; ++i)
    multiply<ROWS, SMEM_K, false>(d, nullptr, tile(a_at + i / 4 * (A_TILE / 16) + i % 4 * 2), tile(b_at + i / 4 * (ROWS * 8) + i % 4 * 2));
}

// d (64 x 128) += A (64 x ROWS) times rows that pass by.
template <int ROWS> __device__ void gather(float *d, unsigned (*a)[4], unsigned b_at) {
#pragma unroll
  for (int i = 0; i < ROWS / 16; ++i) multiply<128, REGISTERS, true>(d, a[i], 0, tile(b_at + i * 128, ROWS * 128));
}

constexpr int STAGES = 3;  // of rows that pass by, two tiles each
template <int ROWS> constexpr int TURN_BYTES = 4 * A_TILE + STAGES * 2 * ROWS * 256;  // two operands that stay

template <int ROWS, bool BACKWARD, bool COPIES, bool ARITHMETIC>
__global__ void __launch_bounds__(128) turns(const char *data, unsigned zero, float c, Count *counts) {
  constexpr int PASSING = ROWS * 256, STAYING = 2 * A_TILE;  // bytes of an operand, in a turn or for all
  zero_memory(TURN_BYTES<ROWS>);
  float s[ROWS / 2] = {}, t[ROWS / 2] = {}, dv[64] = {}, dk[64] = {}, sum = 0;
  unsigned p[ROWS / 16][4], at = address(memory);
  const char *from = data + (blockIdx.x % REGIONS) * REGION + threadIdx.x * 16;
  long long start = clock64();
#pragma unroll 1
  for (int turn = 0; turn < TURNS; ++turn) {
    unsigned q = at + 2 * STAYING + turn % STAGES * 2 * PASSING >> 4, o = q + PASSING / 16;
    unsigned next = at + 2 * STAYING + (turn + 2) % STAGES * 2 * PASSING + threadIdx.x * 16;
    if (COPIES) wait_copies<1>();
    __syncthreads();
    begin_products(), fence_registers<ROWS / 2>(s);
    scores<ROWS>(s, at >> 4, q);
    end_products(), fence_registers<ROWS / 2>(s), fence_registers<64>(dk);
    to_operand<ROWS, ARITHMETIC>(s, nullptr, p, c);
    begin_products(), fence_registers<64>(dv);
    gather<ROWS>(dv, p, o);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (BACKWARD) {
      fence_registers<ROWS / 2>(t);
      scores<ROWS>(t, at + STAYING >> 4, o);
      end_products(), fence_registers<ROWS / 2>(t), fence_registers<64>(dv);
      to_operand<ROWS, ARITHMETIC>(t, s, p, c);
      begin_products(), fence_registers<64>(dk);
      gather<ROWS>(dk, p, q);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }
    __syncthreads();
    if (COPIES) {
#pragma unroll
      for (int i = 0; i < 2 * PASSING / 2048; ++i) copy16(next + i * 2048, from + (turn * 2 * PASSING + i * 2048) % REGION);
      commit_copies();
    }
  }
  end_products(), fence_registers<64>(dv), fence_registers<64>(dk);
  wait_copies<0>();
  if (threadIdx.x == 0) counts[blockIdx.x * 2] = {clock64() - start, TURNS, 0, 0};
  for (int i = 0; i < 64; ++i) sum += dv[i] + dk[i];
  if (sum == NEVER) sink = sum;
}

char *data;
Count *counts;

// Has `ctas` fit on each SM; false where their registers do not.
template <typename... P, typename... Q> bool launch(void (*kernel)(P...), int ctas, int threads, int least, Q... arguments) {
  int shared = SM_SHARED / ctas - RESERVED, fit = 0;
  if (shared > 227 << 10) shared = 227 << 10;
  if (shared < least) return false;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, kernel, threads, shared));
  if (fit != ctas) return false;
  for (int i = 0; i < 2; ++i) kernel<<<SMS * ctas, threads, shared>>>(arguments..., counts);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  return true;
}

// Mean cycles of an SM for one matmul or turn; bytes a cycle of an SM that helpers move.
void report(int ctas, const char *named, bool helped) {
  std::vector<Count> result(SMS * ctas * 2);
  CHECK(cudaMemcpy(result.data(), counts, sizeof(Count) * result.size(), cudaMemcpyDefault));
  double cycles = 0, moved = 0;
  for (int i = 0; i < SMS * ctas; ++i) {
    cycles += (double)result[2 * i].cycles / result[2 * i].amount / (SMS * ctas) / ctas;
    if (helped) moved += (double)result[2 * i + 1].bytes / result[2 * i + 1].moving / SMS;
  }
  printf("{%s, \"ctas\": %d, \"cycles\": %.2f, \"moved_bytes_per_cycle\": %.2f}\n", named, ctas, cycles, moved);
}

template <int N, A FROM, bool B_N, int CHAINS, int BATCH> void streams(std::vector<int> ctas, Helper helper = NONE, int period = 0) {
  if constexpr (N >= 64 || !B_N)
    for (int n : ctas) {
      int threads = helper ? 256 : 128;
      if (!launch(stream<N, FROM, B_N, CHAINS, BATCH>, n, threads, helper ? WITH_HELPERS : STREAM, helper, period, data, 0u)) continue;
      char named[300];
      snprintf(named, sizeof named, "\"what\": \"stream\", \"n\": %d, \"a\": \"%s\", \"b\": \"%s\", \"chains\": %d, \"batch\": %d, "
               "\"beside\": \"%s\", \"period\": %d", N, AS[FROM], B_N ? "N-major" : "K-major", CHAINS, BATCH, HELPERS[helper], period);
      report(n, named, helper != NONE);
    }
}

template <int N, A FROM, bool B_N> void beside() {
  for (int period : {1024, 512, 256, 0}) streams<N, FROM, B_N, 1, 8>({1, 2}, COPY, period);
  for (Helper helper : {LDSM, STS})
    for (int period : {1024, 256, 0}) streams<N, FROM, B_N, 1, 8>({1, 2}, helper, period);
}

template <int N, A FROM> void beside_arithmetic() {
  for (Helper helper : {FFMA, LOP3, EX2}) streams<N, FROM, false, 1, 8>({1}, helper), streams<N, FROM, false, 1, 32>({1, 2}, helper);
}

template <int N> void by_n() {
  const std::vector<int> all = {1, 2, 3, 4};
  streams<N, SMEM_K, false, 1, 32>(all), streams<N, SMEM_M, false, 1, 32>(all), streams<N, REGISTERS, false, 1, 32>(all);
  streams<N, SMEM_K, true, 1, 32>(all), streams<N, SMEM_M, true, 1, 32>(all), streams<N, REGISTERS, true, 1, 32>(all);
  streams<N, SMEM_K, false, 1, 1>(all), streams<N, SMEM_K, false, 1, 2>(all), streams<N, SMEM_K, false, 1, 4>(all), streams<N, SMEM_K, false, 1, 8>(all);
  streams<N, REGISTERS, false, 1, 1>(all), streams<N, REGISTERS, false, 1, 2>(all), streams<N, REGISTERS, false, 1, 4>(all), streams<N, REGISTERS, false, 1, 8>(all);
  streams<N, REGISTERS, true, 1, 2>(all), streams<N, REGISTERS, true, 1, 4>(all);
  if constexpr (N <= 128)
    streams<N, SMEM_K, false, 2, 4>(all), streams<N, SMEM_K, false, 2, 8>(all), streams<N, REGISTERS, false, 2, 8>(all), streams<N, SMEM_K, false, 2, 32>(all);
}

template <int ROWS, bool BACKWARD, bool COPIES, bool ARITHMETIC> void turn() {
  for (int ctas : {1, 2, 3}) {
    if (!launch(turns<ROWS, BACKWARD, COPIES, ARITHMETIC>, ctas, 128, TURN_BYTES<ROWS>, data, 0u, 0.0f)) continue;
    char named[200];
    snprintf(named, sizeof named, "\"what\": \"%s\", \"rows\": %d, \"copies\": %d, \"arithmetic\": %d", BACKWARD ? "backward" : "forward", ROWS, COPIES, ARITHMETIC);
    report(ctas, named, false);
  }
}

template <int ROWS, bool BACKWARD> void turn_by_parts() {
  turn<ROWS, BACKWARD, false, false>(), turn<ROWS, BACKWARD, true, false>();
  turn<ROWS, BACKWARD, false, true>(), turn<ROWS, BACKWARD, true, true>();
}

int main() {
  CHECK(cudaMalloc(&data, REGION * REGIONS));
  CHECK(cudaMemset(data, 0, REGION * REGIONS));
  CHECK(cudaMalloc(&counts, sizeof(Count) * SMS * 4 * 2));
  turn_by_parts<32, true>(), turn_by_parts<64, true>(), turn_by_parts<32, false>(), turn_by_parts<64, false>();
  by_n<8>(), by_n<16>(), by_n<32>(), by_n<64>(), by_n<128>(), by_n<256>();
  beside_arithmetic<16, SMEM_K>(), beside_arithmetic<32, SMEM_K>(), beside_arithmetic<64, SMEM_K>(), beside_arithmetic<128, SMEM_K>();
  beside_arithmetic<32, REGISTERS>(), beside_arithmetic<64, REGISTERS>(), beside_arithmetic<128, REGISTERS>();
  beside<32, SMEM_K, false>(), beside<64, SMEM_K, false>(), beside<128, REGISTERS, true>(), beside<128, SMEM_K, false>();
}
