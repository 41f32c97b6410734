// A tile that the 128 threads of a CTA load by LDGSTS, 16 bytes each at a time, and wait for.
#pragma once

constexpr int SMS = 132, THREADS = 128, PIECE = THREADS * 16;

struct Count { long long waited, cycles, tiles; };
struct Wait { long long begin, there; };  // clock64 before the first LDGSTS, and when all may use the tile

template <int PIECES> __device__ inline Wait load_tile(unsigned to, const char *from) {
  __syncthreads();
  long long begin = clock64();
#pragma unroll
  for (int i = 0; i < PIECES; ++i)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i * PIECE),
                 "l"(from + (size_t)i * PIECE) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  return {begin, clock64()};
}
