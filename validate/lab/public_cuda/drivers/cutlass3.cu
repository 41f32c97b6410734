// CUTLASS 3.x: warp-specialized GEMM with TMA and wgmma, as its example 48 builds it, clusters of one CTA
#include "given.h"
#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>
using namespace cute;
using T = cutlass::bfloat16_t;
template <typename Schedule, typename EpilogueSchedule, typename Tile, typename Cluster> static void run(const char *name, int m, int n, int k) {
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, T, cutlass::layout::RowMajor, 8, T, cutlass::layout::RowMajor, 8, EpilogueSchedule>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, T, cutlass::layout::RowMajor, 8, T, cutlass::layout::ColumnMajor, 8,
    float, Tile, Cluster, cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>, Schedule>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
  label(name);
  auto sa = cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, make_shape(m, k, 1));
  auto sb = cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, make_shape(n, k, 1));
  auto sc = cutlass::make_cute_packed_stride(typename Kernel::StrideC{}, make_shape(m, n, 1));
  cutlass::KernelHardwareInfo hardware;
  hardware.sm_count = 132;
  typename Gemm::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGemm, {m, n, k, 1}, {tensor<T>("a", "bf16", {1, m, k}), sa, tensor<T>("b", "bf16", {1, n, k}), sb},
    {{1.f, 0.f}, tensor<T>("c", "bf16", {1, m, n}), sc, tensor<T>("d", "bf16", {1, m, n}), sc}, hardware};
  Gemm gemm;
  gemm.initialize(arguments, nullptr);
  gemm.run();
}
using One = Shape<_1, _1, _1>;
int main() {
  volatile char room[65536]; room[0] = 0;
  using namespace cutlass;
  run<gemm::KernelTmaWarpSpecializedCooperative, epilogue::TmaWarpSpecializedCooperative, Shape<_128, _256, _64>, One>("cutlass_sm90_cooperative", 4096, 4096, 4096);
  run<gemm::KernelTmaWarpSpecializedPingpong, epilogue::TmaWarpSpecialized, Shape<_64, _128, _64>, One>("cutlass_sm90_pingpong", 4096, 4096, 4096);
  run<gemm::KernelTmaWarpSpecializedCooperative, epilogue::TmaWarpSpecializedCooperative, Shape<_128, _128, _64>, Shape<_2, _1, _1>>("cutlass_sm90_cluster2", 4096, 4096, 4096);
}
