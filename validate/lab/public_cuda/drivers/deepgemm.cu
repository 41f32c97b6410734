// DeepGEMM: bf16, 64 rows and 4096 rows of DeepSeek-V3's shapes, tiles without multicast
#include "given.h"
#include <cuda.h>
#include <deep_gemm/impls/sm90_bf16_gemm.cuh>
using namespace deep_gemm;
static CUtensorMap map_of(const char *name, long rows, long columns, unsigned box_rows, unsigned box_columns, CUtensorMapSwizzle swizzle) {
  CUtensorMap map;
  cuuint64_t shape[2] = {(cuuint64_t)columns, (cuuint64_t)rows}, stride[1] = {(cuuint64_t)columns * 2};
  cuuint32_t box[2] = {box_columns, box_rows}, steps[2] = {1, 1};
  cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, given(name, "bf16", {rows, columns}), shape, stride, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return map;
}
template <int n, int k, int bm, int bn, int stages, int math> static void run(const char *name, int m) {
  label(name);
  constexpr int wide = bn * 2 < 128 ? bn * 2 : 128;
  auto kernel = sm90_bf16_gemm_impl<cute::UMMA::Major::K, cute::UMMA::Major::K, 0, n, k, 1, bm, bn, 64, 128, 128, wide, stages, 128, math, 1, false, 132, GemmType::Normal, false, cutlass::bfloat16_t>;
  auto a = map_of("a", m, k, bm, 64, CU_TENSOR_MAP_SWIZZLE_128B), b = map_of("b", n, k, bn, 64, CU_TENSOR_MAP_SWIZZLE_128B);
  auto d = map_of("d", m, n, bm, wide / 2, wide == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B);
  const int smem = (bm * bn * 2 + 1023) / 1024 * 1024 + 256 + stages * (bm + bn) * 128;
  int *layout = nullptr;
  unsigned um = m, un = n, uk = k;
  void *args[] = {&layout, &um, &un, &uk, &a, &b, &d};
  cudaLaunchKernel((void *)kernel, dim3(132), dim3(128 + math), args, smem, 0);
}
int main() {
  volatile char room[65536]; room[0] = 0;
  run<4096, 7168, 64, 32, 16, 128>("deepgemm_bf16_64", 64);
  run<4096, 7168, 128, 128, 6, 256>("deepgemm_bf16_4096", 4096);
}
