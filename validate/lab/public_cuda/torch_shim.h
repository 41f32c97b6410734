// As much of torch's C++ as host code of these projects asks: tensors are addresses with shapes, dispatch is to the
// types that are launched here. Types of elements are torch's own (c10/util).
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e4m3fnuz.h>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "given.h"

namespace c10 {
enum class ScalarType { Byte, Char, Int, Long, Half, Float, BFloat16, Float8_e4m3fn, Float8_e4m3fnuz, Double, UInt32, Bool, Short };
using IntArrayRef = std::vector<int64_t>;
struct Device { int index() const { return 0; } bool is_cuda() const { return true; } };
using DeviceIndex = signed char;
namespace cuda {
struct CUDAStream { cudaStream_t stream() const { return 0; } operator cudaStream_t() const { return 0; } };
inline CUDAStream getCurrentCUDAStream(int = 0) { return {}; }
struct CUDAGuard { template <typename T> CUDAGuard(T) {} };
struct OptionalCUDAGuard { template <typename T> OptionalCUDAGuard(T) {} };
}
}
namespace at {
struct Sizes : std::vector<int64_t> { using std::vector<int64_t>::vector; Sizes(const std::vector<int64_t> &v) : std::vector<int64_t>(v) {} std::vector<int64_t> vec() const { return *this; } };
using c10::ScalarType;
using c10::Half;
using c10::BFloat16;
using c10::IntArrayRef;
using ScalarTypeT = c10::ScalarType;
struct TensorOptions { TensorOptions dtype(ScalarType) const { return *this; } TensorOptions device(c10::Device) const { return *this; } TensorOptions dtype(c10::ScalarType, int) const { return *this; } };
struct Tensor {
  void *pointer = nullptr;
  std::vector<int64_t> sizes_{}, strides_{};
  ScalarType type = ScalarType::Float;
  bool defined() const { return pointer; }
  int64_t size(int64_t i) const { return sizes_[i < 0 ? i + sizes_.size() : i]; }
  int64_t stride(int64_t i) const { return strides_[i < 0 ? i + strides_.size() : i]; }
  Sizes sizes() const { return sizes_; }
  std::vector<int64_t> strides() const { return strides_; }
  int64_t dim() const { return sizes_.size(); }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { int64_t n = 1; for (auto s : sizes_) n *= s; return n; }
  int64_t element_size() const {
    switch (type) {
    case ScalarType::Long: case ScalarType::Double: return 8;
    case ScalarType::Int: case ScalarType::Float: case ScalarType::UInt32: return 4;
    case ScalarType::Half: case ScalarType::BFloat16: case ScalarType::Short: return 2;
    default: return 1;
    }
  }
  int64_t nbytes() const { return numel() * element_size(); }
  int64_t itemsize() const { return element_size(); }
  bool is_contiguous() const { return true; }
  bool is_cuda() const { return true; }
  c10::Device device() const { return {}; }
  int get_device() const { return 0; }
  TensorOptions options() const { return {}; }
  ScalarType scalar_type() const { return type; }
  ScalarType dtype() const { return type; }
  template <typename T = void> T *data_ptr() const { return (T *)pointer; }
  template <typename T = void> T *mutable_data_ptr() const { return (T *)pointer; }
  template <typename T = void> const T *const_data_ptr() const { return (const T *)pointer; }
  Tensor contiguous() const { return *this; }
  Tensor view(std::vector<int64_t> shape) const;
};
inline std::optional<c10::Device> device_of(const Tensor &) { return c10::Device{}; }
namespace cuda { using c10::cuda::CUDAGuard; using c10::cuda::OptionalCUDAGuard; using c10::cuda::CUDAStream; using c10::cuda::getCurrentCUDAStream;
inline cudaDeviceProp *getCurrentDeviceProperties() { static cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); return &p; } }
inline Tensor made(const char *name, ScalarType type, std::vector<int64_t> shape, void *pointer) {
  Tensor t{pointer, shape, std::vector<int64_t>(shape.size(), 1), type};
  for (int i = (int)shape.size() - 2; i >= 0; --i) t.strides_[i] = t.strides_[i + 1] * shape[i + 1];
  return t;
}
inline Tensor Tensor::view(std::vector<int64_t> shape) const { return made("", type, shape, pointer); }
inline const char *written(ScalarType t) {
  switch (t) {
  case ScalarType::Long: return "int64"; case ScalarType::Double: return "fp64"; case ScalarType::Int: return "int32";
  case ScalarType::UInt32: return "uint32"; case ScalarType::Float: return "fp32"; case ScalarType::Half: return "fp16";
  case ScalarType::BFloat16: return "bf16"; case ScalarType::Bool: return "bool"; case ScalarType::Short: return "int16";
  case ScalarType::Char: return "int8"; default: return "uint8";
  }
}
inline Tensor tensor_of(const char *name, ScalarType type, std::vector<int64_t> shape, const char *values = "") {
  int64_t n = 1;
  for (auto s : shape) n *= s;
  return made(name, type, shape, given(name, written(type), {n}, values));
}
inline Tensor empty(std::vector<int64_t> shape, TensorOptions) { return tensor_of("out", ScalarType::Half, shape); }
inline Tensor zeros(std::vector<int64_t> shape, TensorOptions) { return tensor_of("zeroed", ScalarType::Half, shape); }
inline Tensor empty_like(const Tensor &t) { return t; }
inline std::ostream &operator<<(std::ostream &out, ScalarType type) { return out << written(type); }
constexpr auto kByte = ScalarType::Byte, kChar = ScalarType::Char, kInt = ScalarType::Int, kLong = ScalarType::Long, kHalf = ScalarType::Half,
  kFloat = ScalarType::Float, kBFloat16 = ScalarType::BFloat16, kFloat32 = ScalarType::Float, kFloat16 = ScalarType::Half, kInt32 = ScalarType::Int;
}
namespace c10 { using at::Tensor; }
namespace torch { using namespace at; using at::Tensor; using c10::Device; using at::ScalarType; using at::kInt; using at::empty;
inline TensorOptions TensorOptions_() { return {}; } using at::TensorOptions; using at::IntArrayRef; using c10::BFloat16; using c10::Half; }
using at::device_of;
using ScalarTypeAlias = at::ScalarType;
namespace c10 { using at::operator<<; }
#define TORCH_CHECK(condition, ...) { if (!(condition)) { fprintf(stderr, "check failed: %s\n", #condition); exit(1); } }
#define TORCH_CHECK_NOT_IMPLEMENTED TORCH_CHECK
#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define AT_ASSERTM TORCH_CHECK
#define AT_ASSERT TORCH_CHECK
#define AT_ERROR(...) do { fprintf(stderr, "not dispatched\n"); exit(1); } while (0)
#define C10_CUDA_CHECK(x) (x)
#define C10_CUDA_KERNEL_LAUNCH_CHECK()
#define AT_CUDA_CHECK(x) (x)
template <at::ScalarType> struct TypeOf;
template <> struct TypeOf<at::ScalarType::Half> { using type = c10::Half; };
template <> struct TypeOf<at::ScalarType::BFloat16> { using type = c10::BFloat16; };
template <> struct TypeOf<at::ScalarType::Float> { using type = float; };
template <> struct TypeOf<at::ScalarType::Float8_e4m3fn> { using type = c10::Float8_e4m3fn; };
template <> struct TypeOf<at::ScalarType::Int> { using type = int; };
template <> struct TypeOf<at::ScalarType::Long> { using type = int64_t; };
template <> struct TypeOf<at::ScalarType::Byte> { using type = uint8_t; };
template <> struct TypeOf<at::ScalarType::Char> { using type = int8_t; };
// what is compiled: bf16 and fp16, with fp8 where a project asks for it; others are not dispatched
#define LAUNCHED_Float 0
#ifndef AT_DISPATCH_SWITCH
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...) [&] { const auto &the_type = TYPE; switch (the_type) { __VA_ARGS__ default: fprintf(stderr, "type of %s\n", NAME); exit(1); } }()
#define AT_PRIVATE_CASE_TYPE_USING_HINT(ENUM, HINT, ...) case ENUM: { using HINT [[maybe_unused]] = TypeOf<ENUM>::type; __VA_ARGS__(); break; }
#define AT_DISPATCH_CASE(ENUM, ...) case ENUM: { using scalar_t [[maybe_unused]] = TypeOf<ENUM>::type; __VA_ARGS__(); break; }
#endif
