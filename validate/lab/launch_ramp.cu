// How long a launch takes besides its CTAs' work: empty kernels, straight code of so many instructions that each warp
// goes through once, and loads one after the other from places of their own, each of so many CTAs.
//
//   nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a -O3 launch_ramp.cu -o launch_ramp
//   for caches in all none; do ncu --csv --cache-control $caches --clock-control none --metrics \
//     sm__cycles_elapsed.max,sm__cycles_active.max,gpu__time_duration.sum ./launch_ramp > launch_ramp-$caches.csv; done
//
// Kernels are told apart by their names; a launch's grid and block stand beside them.
#include "check.cuh"

constexpr int APART = 1 << 22;

__global__ void empty() {}

template <int LENGTH> __global__ void straight(float *out) {
  float v[8];
  for (int i = 0; i < 8; ++i) v[i] = threadIdx.x + i;
#pragma unroll
  for (int j = 0; j < LENGTH; ++j) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(v[j % 8]));
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += v[i];
  if (sum == 12345.5f) *out = sum;
}

template <int LOADS> __global__ void loads(const int *in, int *out) {
  int place = blockIdx.x * 32;
#pragma unroll
  for (int j = 0; j < LOADS; ++j) place += in[(size_t)j * APART + place + threadIdx.x % 32];
  out[blockIdx.x * blockDim.x + threadIdx.x] = place;
}

__global__ void stores(int *out) { out[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x; }

int main() {
  int *in;
  CHECK(cudaMalloc(&in, sizeof(int) * APART * 10ll));
  CHECK(cudaMemset(in, 0, sizeof(int) * APART * 10ll));
  int *out = in + APART * 9ll;
  for (int ctas : {1, 132, 528, 1056, 4224})
    for (int threads : {32, 128, 512})
      for (int round = 0; round < 2; ++round) {
        empty<<<ctas, threads>>>();
        stores<<<ctas, threads>>>(out);
        loads<1><<<ctas, threads>>>(in, out);
        loads<2><<<ctas, threads>>>(in, out);
        loads<4><<<ctas, threads>>>(in, out);
        loads<8><<<ctas, threads>>>(in, out);
        if (ctas > 132) continue;
        straight<64><<<ctas, threads>>>((float *)out);
        straight<256><<<ctas, threads>>>((float *)out);
        straight<1024><<<ctas, threads>>>((float *)out);
        straight<2048><<<ctas, threads>>>((float *)out);
        straight<4096><<<ctas, threads>>>((float *)out);
        straight<8192><<<ctas, threads>>>((float *)out);
        straight<16384><<<ctas, threads>>>((float *)out);
      }
  CHECK(cudaDeviceSynchronize());
}
