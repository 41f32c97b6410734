// CUTLASS: GEMMs of its 2.x interface, as its examples 00 and 08/14 build them, at 4096
#include "given.h"
#include <cutlass/gemm/device/gemm.h>
template <typename G, typename A, typename C> static void run(const char *name, int m, int n, int k, const char *a_type, const char *c_type) {
  label(name);
  G gemm;
  typename G::Arguments arguments({m, n, k}, {tensor<A>("a", a_type, {m, k}), k}, {tensor<A>("b", a_type, {k, n}), G::LayoutB::kRank && std::is_same<typename G::LayoutB, cutlass::layout::RowMajor>::value ? n : k},
    {tensor<C>("c", c_type, {m, n}), n}, {tensor<C>("d", c_type, {m, n}), n}, {1.f, 0.f});
  gemm.initialize(arguments);
  gemm.run();
}
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
using bf16 = cutlass::bfloat16_t;
using Linear = cutlass::epilogue::thread::LinearCombination<bf16, 8, float, float>;
using Swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>;
using Simt = cutlass::gemm::device::Gemm<float, Row, float, Row, float, Row>;
using TensorOp = cutlass::gemm::device::Gemm<bf16, Row, bf16, Column, bf16, Row, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, cutlass::gemm::GemmShape<128, 256, 64>,
  cutlass::gemm::GemmShape<64, 64, 64>, cutlass::gemm::GemmShape<16, 8, 16>, Linear, Swizzle, 3>;
using Tf32 = cutlass::gemm::device::Gemm<float, Row, float, Column, float, Row, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, cutlass::gemm::GemmShape<128, 128, 16>,
  cutlass::gemm::GemmShape<64, 64, 16>, cutlass::gemm::GemmShape<16, 8, 8>, cutlass::epilogue::thread::LinearCombination<float, 4, float, float>, Swizzle, 4>;
int main() {
  volatile char room[65536]; room[0] = 0;
  run<Simt, float, float>("cutlass_simt_sgemm", 2048, 2048, 2048, "fp32", "fp32");
  run<TensorOp, bf16, bf16>("cutlass_sm80_bf16", 4096, 4096, 4096, "bf16", "bf16");
  run<Tf32, float, float>("cutlass_sm80_tf32", 4096, 4096, 2048, "fp32", "fp32");
}
