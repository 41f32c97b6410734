// Tile products of a warpgroup (wgmma, fp16 into fp32), as the measuring programs write them.
//
// If ptxas warns (C7510 to C7519) that it serialises wgmma, the products' times mean nothing. So:
// a fence before each batch, four different registers of A, and as many products for each of the
// four warps.
#pragma once

#define NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NAMES_32 NAMES_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_64                                                                                \
  NAMES_32 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_128                                                                               \
  NAMES_64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FLOATS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define FLOATS_16 FLOATS_4(0), FLOATS_4(4)
#define FLOATS_32 FLOATS_16, FLOATS_4(8), FLOATS_4(12)
#define FLOATS_64 FLOATS_32, FLOATS_4(16), FLOATS_4(20), FLOATS_4(24), FLOATS_4(28)
#define FLOATS_128                                                                              \
  FLOATS_64, FLOATS_4(32), FLOATS_4(36), FLOATS_4(40), FLOATS_4(44), FLOATS_4(48),              \
      FLOATS_4(52), FLOATS_4(56), FLOATS_4(60)
#define A_REGISTERS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
#define WGMMA(n, rest, ...)                                                                     \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" NAMES_##n "}, " rest  \
               : FLOATS_##n : __VA_ARGS__)
#define WGMMA_SS(n, first, second) \
  WGMMA(n, "%" #first ", %" #second ", 1, 1, 1, 0, 0;", "l"(a_tile), "l"(b_tile))

// Tiles of rows of 128 bytes, swizzled, 1024 bytes from one group of 8 rows to the next.
constexpr size_t LAYOUT = 1ull << 16 | 64ull << 32 | 1ull << 62;

__device__ inline unsigned address(const void *at) { return __cvta_generic_to_shared(at); }

// d += A B, of m64nNk16; A comes from shared memory or from registers, B from shared memory.
template <int N, bool A_SHARED>
__device__ inline void multiply_tile(float *d, const unsigned *a, size_t a_tile, size_t b_tile) {
  static_assert(N == 64 || N == 128 || (A_SHARED && (N == 16 || N == 32)));
  if constexpr (A_SHARED && N == 16) WGMMA_SS(16, 8, 9);
  if constexpr (A_SHARED && N == 32) WGMMA_SS(32, 16, 17);
  if constexpr (A_SHARED && N == 64) WGMMA_SS(64, 32, 33);
  if constexpr (A_SHARED && N == 128) WGMMA_SS(128, 64, 65);
  if constexpr (!A_SHARED && N == 64)
    WGMMA(64, "{%32, %33, %34, %35}, %36, 1, 1, 1, 0;", A_REGISTERS, "l"(b_tile));
  if constexpr (!A_SHARED && N == 128)
    WGMMA(128, "{%64, %65, %66, %67}, %68, 1, 1, 1, 0;", A_REGISTERS, "l"(b_tile));
}

// The i-th of a row of products of the same tiles, A (64 x 64) at `tiles` and B (128 x 64) behind it.
template <int N, bool A_SHARED>
__device__ inline void multiply_next(float *d, const unsigned *a, const void *tiles, int i) {
  size_t along = LAYOUT | i % 4 * 2;  // 32 bytes, 16 numbers, further along the rows
  size_t a_tile = along + (address(tiles) >> 4);
  multiply_tile<N, A_SHARED>(d, a, a_tile, a_tile + (8192 >> 4));
}

// Registers that products use are not touched before or after here.
template <int FLOATS> __device__ inline void fence_registers(float *d) {
#pragma unroll
  for (int i = 0; i < FLOATS; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ inline void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
