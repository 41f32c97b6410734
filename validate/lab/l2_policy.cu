// What an L2 keeps: sequences of reads, writes and copies, one launch each, whose traffic ncu counts.
//
//   nvcc -std=c++17 -arch=native -O3 l2_policy.cu -o l2_policy
//   ncu --clock-control none --cache-control none --csv --page raw --print-units base \
//       --metrics dram__bytes_read.sum,dram__bytes_write.sum,lts__t_sectors_srcunit_ltcfabric.sum ./l2_policy
//
// Every sequence begins with two launches that empty L2: a write of 256 MB, and the discard of those lines.
// Each launch prints its number, its sequence, what it does, and MB (10^6 B); ncu lists the launches in that order.
#include <cstdio>
#include <cstdlib>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include "check.cuh"

constexpr size_t CHUNK = 256;  // 16-byte words that a CTA moves at a time: 4 KiB
constexpr int CTAS = 264, SMS = 132;

// Chunks dealt over the CTAs in order: each SM has lines of its own.
__global__ void read_own(const uint4 *data, size_t chunks, bool back, unsigned *out) {
  unsigned sum = 0;
  for (size_t i = blockIdx.x; i < chunks; i += gridDim.x) {
    uint4 word = __ldcg(data + (back ? chunks - 1 - i : i) * CHUNK + threadIdx.x);
    sum += word.x ^ word.y ^ word.z ^ word.w;
  }
  if (sum == 0x12345) *out = sum;
}

// Every CTA reads everything, all in the same order.
__global__ void read_shared(const uint4 *data, size_t chunks, bool back, unsigned *out) {
  unsigned sum = 0;
  for (size_t i = 0; i < chunks; ++i) {
    uint4 word = __ldcg(data + (back ? chunks - 1 - i : i) * CHUNK + threadIdx.x);
    sum += word.x ^ word.y ^ word.z ^ word.w;
  }
  if (sum == 0x12345) *out = sum;
}

__global__ void write_own(uint4 *data, size_t chunks, unsigned value) {
  for (size_t i = blockIdx.x; i < chunks; i += gridDim.x) data[i * CHUNK + threadIdx.x] = make_uint4(value, value, value, value);
}

__global__ void copy_own(const uint4 *from, uint4 *to, size_t chunks) {
  for (size_t i = blockIdx.x; i < chunks; i += gridDim.x) {
    uint4 word = __ldcg(from + i * CHUNK + threadIdx.x);
    word.x++;
    to[i * CHUNK + threadIdx.x] = word;
  }
}

__global__ void discard(char *data, size_t bytes) {
  for (size_t i = 128 * ((size_t)blockIdx.x * blockDim.x + threadIdx.x); i < bytes; i += 128 * (size_t)gridDim.x * blockDim.x)
    asm volatile("discard.global.L2 [%0], 128;" ::"l"(data + i) : "memory");
}

char *buffer, *other;
unsigned *out;
int number = 0;
const char *sequence = "";

uint4 *at(double megabytes) { return (uint4 *)(buffer + (size_t)(megabytes * 1e6) / 4096 * 4096); }
size_t chunks_of(double megabytes) { return (size_t)(megabytes * 1e6) / 4096; }
void say(const char *what, double megabytes) { printf("%d %s %s %.1f\n", number++, sequence, what, megabytes); }

void read(double size, double from = 0, bool back = false) {
  say(back ? "rdback" : "rd", size);
  read_own<<<CTAS, CHUNK>>>(at(from), chunks_of(size), back, out);
}
void shared(double size, double from = 0, bool back = false) {
  say(back ? "rdsback" : "rds", size);
  read_shared<<<SMS, CHUNK>>>(at(from), chunks_of(size), back, out);
}
void write(double size, double from = 0) {
  say("wr", size);
  write_own<<<CTAS, CHUNK>>>(at(from), chunks_of(size), number);
}
void copy(double size, double from, double to) {
  say("cp", size);
  copy_own<<<CTAS, CHUNK>>>(at(from), at(to), chunks_of(size));
}
void begin(const char *name) {
  sequence = name;
  say("reset", 0);
  write_own<<<CTAS, CHUNK>>>((uint4 *)other, chunks_of(256), 1);
  say("discard", 0);
  discard<<<CTAS, CHUNK>>>(other, 256000000);
}

int main() {
  CHECK(cudaMalloc(&buffer, 2000000000));
  CHECK(cudaMalloc(&other, 300000000));
  CHECK(cudaMemset(buffer, 1, 2000000000));
  CHECK(cudaMalloc(&out, 4));
  CHECK(cudaDeviceSynchronize());
  cudaProfilerStart();
  for (double s : {20, 30, 36, 40, 44, 48, 56, 64, 80, 100, 140}) { begin("E1"); for (int i = 0; i < 6; ++i) read(s); }
  for (double s : {48, 64, 100, 140}) { begin("E2"); for (int i = 0; i < 6; ++i) read(s, 0, i & 1); }
  for (double s : {20, 26, 28, 30, 32, 36, 40, 48, 64}) { begin("E3"); for (int i = 0; i < 5; ++i) shared(s); }
  for (double s : {36, 48, 64}) { begin("E3b"); for (int i = 0; i < 4; ++i) shared(s, 0, i & 1); }
  for (double s : {4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96}) { begin("E4"); write(s); read(s); read(s); }
  for (double s : {8, 16, 24, 32}) { begin("E4b"); write(s); read(200, 400); read(s); }
  for (double s : {4, 8, 12, 16, 20, 24, 32, 48, 64, 96}) { begin("E5"); write(s); copy(s, 0, 800); copy(s, 800, 0); read(s); }
  for (double s : {4, 8, 12, 16, 20, 24, 32, 48, 64}) { begin("E5c"); write(s); copy(s, 0, 0); copy(s, 0, 0); read(s); }
  for (int times : {1, 2, 3, 4, 8, 20})
    for (double s : {20, 40, 80, 160, 320}) { begin("E6"); for (int i = 0; i < times; ++i) read(16); read(s, 400); read(16); }
  for (int times : {1, 4})
    for (double s : {10, 20, 40, 80, 160}) { begin("E7"); for (int i = 0; i < times; ++i) read(16); write(s, 400); read(16); }
  for (double s : {10, 20, 30, 40, 60, 80, 160}) { begin("E8"); write(16); read(s, 400); read(16); }
  for (double s : {10, 20, 40, 80, 160}) { begin("E9"); shared(16); read(s, 400); shared(16); }
  for (double s : {10, 20, 40, 80}) { begin("E10"); shared(16); shared(16); write(s, 400); shared(16); }
  CHECK(cudaDeviceSynchronize());
  printf("done\n");
}
