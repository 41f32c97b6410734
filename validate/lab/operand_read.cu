// How long a memory instruction holds on to its operands on an H200: a warp may change a register that
// LDGSTS, STS or STG reads only when that has been read. The address of each is changed right after it.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 operand_read.cu -o operand_read
//   ./operand_read > operand_read.jsonl
//
// Each line on stdout is a measurement: cycles from one instruction of a warp to its next, where so many
// warps of one SM, or of each of 132, do the same: bursts of `burst` of them, then a wait (of LDGSTS: for
// the data; of STG: so many cycles as their data need to leave), which is not counted.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include "check.cuh"

enum Op { LDGSTS, LDGSTS_8, STS, STG };
const char *OPS[] = {"LDGSTS.128", "LDGSTS.64", "STS.128", "STG.128"};
constexpr int SMS = 132, ROUNDS = 200, BURST = 8, ROW = 512, MOST = 16;
constexpr size_t DATA = (size_t)SMS * MOST * BURST * ROW;

struct Count { long long cycles, amount; };
extern __shared__ __align__(1024) char memory[];

// Each instruction's address is a register that the loop changes right after it: nothing is unrolled.
template <Op OP> __global__ void hold(char *data, unsigned step, Count *counts) {
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  unsigned shared = __cvta_generic_to_shared(memory) + warp * BURST * ROW + lane * 16;
  char *global = data + ((size_t)blockIdx.x * warps + warp) * BURST * ROW + lane * 16;
  long long total = 0;
#pragma unroll 1
  for (int round = 0; round < ROUNDS; ++round) {
    unsigned long long from = (unsigned long long)global;
    unsigned to = shared;
    __syncthreads();
    long long start = clock64();
#pragma unroll 1
    for (int i = 0; i < BURST; ++i) {
      if (OP == LDGSTS)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
      if (OP == LDGSTS_8)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from));
      if (OP == STS) asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(lane));
      if (OP == STG) asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(from), "r"(lane));
      to += step;
      from += step;
    }
    total += clock64() - start;
    asm volatile("cp.async.wait_all;" ::: "memory");
    if (OP == STG)
      for (long long begin = clock64(); clock64() - begin < warps * BURST * ROW / 8;) {}
  }
  if (lane == 0) counts[blockIdx.x * warps + warp] = {total, (long long)ROUNDS * BURST};
}

char *data;
Count *counts;

template <Op OP> void measure(int ctas, int warps) {
  std::vector<Count> result(ctas * warps);
  int shared = warps * BURST * ROW;
  CHECK(cudaFuncSetAttribute(hold<OP>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  for (int i = 0; i < 2; ++i) hold<OP><<<ctas, warps * 32, shared>>>(data, ROW, counts);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(result.data(), counts, sizeof(Count) * result.size(), cudaMemcpyDefault));
  double sum = 0;
  for (Count one : result) sum += (double)one.cycles / one.amount;
  printf("{\"op\": \"%s\", \"ctas\": %d, \"warps\": %d, \"burst\": %d, "
         "\"cycles_per_instruction\": %.2f}\n", OPS[OP], ctas, warps, BURST, sum / result.size());
}

template <Op OP> void both() {
  for (int ctas : {1, SMS})
    for (int warps : {1, 2, 4, 8, 16}) measure<OP>(ctas, warps);
}

int main() {
  CHECK(cudaMalloc(&data, DATA));
  CHECK(cudaMemset(data, 0, DATA));
  CHECK(cudaMalloc(&counts, SMS * MOST * sizeof(Count)));
  both<LDGSTS>(), both<LDGSTS_8>(), both<STS>(), both<STG>();
}
