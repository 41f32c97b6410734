// In the place of the CUDA runtime: notes what host code of a project launches, on a machine without a GPU.
// The file named by LAUNCHED_PARAMETERS has a line for each kernel: name, registers, static shared memory [B], sizes of its parameters [B].
// Prints JSON: a line for each tensor given, and one for each launch.
#include "given.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

static std::map<const void *, std::string> &kernels() { static std::map<const void *, std::string> m; return m; }
static unsigned long next_address = 0x600000000000ul;
struct Configuration { dim3 grid, block; size_t smem; };
static Configuration pushed;
static unsigned cluster[3] = {1, 1, 1};

void *given(const char *name, const char *dtype, std::initializer_list<long> shape, const char *values) {
  printf("{\"tensor\": \"%s\", \"dtype\": \"%s\", \"address\": %lu, \"values\": \"%s\", \"shape\": [", name, dtype, next_address, values);
  const char *comma = "";
  for (long size : shape) printf("%s%ld", comma, size), comma = ", ";
  printf("]}\n");
  void *made = (void *)next_address;
  next_address += 1ul << 34;
  return made;
}

static cudaError_t launched(const void *function, dim3 grid, dim3 block, void **args, size_t smem) {
  std::string name = kernels().count(function) ? kernels()[function] : "?";
  std::ifstream file(getenv("LAUNCHED_PARAMETERS") ? getenv("LAUNCHED_PARAMETERS") : "/dev/null");
  std::string line, word;
  std::vector<size_t> sizes;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    words >> word;
    if (word != name) continue;
    size_t size;
    words >> size >> size; // registers, static shared memory
    while (words >> size) sizes.push_back(size);
  }
  printf("{\"kernel\": \"%s\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"smem\": %zu, \"cluster\": [%u, %u, %u], \"params\": [", name.c_str(), grid.x,
         grid.y, grid.z, block.x, block.y, block.z, smem, cluster[0], cluster[1], cluster[2]);
  cluster[0] = cluster[1] = cluster[2] = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    printf("%s\"", i ? ", " : "");
    for (size_t byte = 0; byte < sizes[i]; ++byte) printf("%02x", ((unsigned char *)args[i])[byte]);
    printf("\"");
  }
  printf("]}\n");
  fflush(stdout);
  return cudaSuccess;
}

extern "C" {
void **__cudaRegisterFatBinary(void *) { static void *handle; return &handle; }
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int) {}
void __cudaRegisterFunction(void **, const char *host, char *, const char *device, int, uint3 *, uint3 *, dim3 *, dim3 *, int *) {
  kernels()[host] = device;
}
char __cudaInitModule(void **) { return 0; }
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t smem, struct CUstream_st *) {
  pushed = {grid, block, smem};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *smem, void *stream) {
  *grid = pushed.grid, *block = pushed.block, *smem = pushed.smem, *(void **)stream = nullptr;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) { *kernel = (cudaKernel_t)function; return cudaSuccess; }
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t smem, cudaStream_t) {
  return launched((const void *)kernel, grid, block, args, smem);
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t smem, cudaStream_t) {
  return launched((const void *)kernel, grid, block, args, smem);
}
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t smem, cudaStream_t) {
  return launched(function, grid, block, args, smem);
}
cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **args, size_t smem, cudaStream_t) {
  return launched(function, grid, block, args, smem);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **args) {
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension)
      cluster[0] = config->attrs[i].val.clusterDim.x, cluster[1] = config->attrs[i].val.clusterDim.y, cluster[2] = config->attrs[i].val.clusterDim.z;
  return launched(function, config->gridDim, config->blockDim, args, config->dynamicSmemBytes);
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t) { return "none"; }
const char *cudaGetErrorName(cudaError_t) { return "none"; }
cudaError_t cudaGetDevice(int *device) { *device = 0; return cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int *n) { *n = 1; return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaFree(void *) { return cudaSuccess; }
cudaError_t cudaMalloc(void **pointer, size_t size) { *pointer = given("allocated", "uint8", {(long)size}); return cudaSuccess; }
cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemset(void *, int, size_t) { return cudaSuccess; }
cudaError_t cudaMemcpyAsync(void *, const void *, size_t, cudaMemcpyKind, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncSetCacheConfig(const void *, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *) {
  memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = 1024, attributes->binaryVersion = 90, attributes->ptxVersion = 90;
  return cudaSuccess;
}
// of an H200
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
  case cudaDevAttrMultiProcessorCount: *value = 132; break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 232448; break;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 233472; break;
  case cudaDevAttrMaxSharedMemoryPerBlock: *value = 49152; break;
  case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
  case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
  case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
  case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
  case cudaDevAttrWarpSize: *value = 32; break;
  default: *value = 1; fprintf(stderr, "attribute %d asked\n", attribute);
  }
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) {
  memset(p, 0, sizeof *p);
  p->major = 9, p->multiProcessorCount = 132, p->sharedMemPerBlockOptin = 232448, p->sharedMemPerBlock = 49152, p->warpSize = 32;
  p->sharedMemPerMultiprocessor = 233472, p->maxThreadsPerMultiProcessor = 2048, p->maxThreadsPerBlock = 1024;
  p->maxGridSize[0] = 2147483647, p->maxGridSize[1] = p->maxGridSize[2] = 65535, p->l2CacheSize = 62914560;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *function, int threads, size_t smem) {
  std::string name = kernels().count(function) ? kernels()[function] : "?", line, word;
  std::ifstream file(getenv("LAUNCHED_PARAMETERS") ? getenv("LAUNCHED_PARAMETERS") : "/dev/null");
  int warps = (threads + 31) / 32, registers = 32, own = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    words >> word;
    if (word == name) words >> registers >> own;
  }
  int by_registers = 65536 / (((registers + 7) / 8 * 8) * 32) / warps, by_smem = 233472 / (int)(smem + own + 1024);
  *n = std::min({64 / warps, 32, by_registers, by_smem});
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *f, int b, size_t s, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(n, f, b, s);
}
}
void label(const char *name) { printf("{\"label\": \"%s\"}\n", name); }
// Descriptors of TMA: the tensor, its shape and the box, for the launch file to say so; the driver makes the real ones.
struct Described { unsigned long magic, address; unsigned rank, type, swizzle, pad; unsigned long shape[5]; unsigned box[5], pad2; };
static_assert(sizeof(Described) <= 128);
static CUresult encoded(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *shape, const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *,
                        CUtensorMapInterleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  Described made = {0x544d41544d41ul, (unsigned long)address, rank, (unsigned)type, (unsigned)swizzle};
  for (unsigned axis = 0; axis < rank; ++axis) {
    made.shape[axis] = shape[axis], made.box[axis] = box[axis];
    if (axis) fprintf(stderr, "stride %lu of axis %u\n", (unsigned long)strides[axis - 1], axis);
  }
  memset(map, 0, sizeof *map);
  memcpy(map, &made, sizeof made);
  return CUDA_SUCCESS;
}
extern "C" CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *shape, const cuuint64_t *strides, const cuuint32_t *box,
  const cuuint32_t *steps, CUtensorMapInterleave i, CUtensorMapSwizzle s, CUtensorMapL2promotion p, CUtensorMapFloatOOBfill f) { return encoded(map, type, rank, address, shape, strides, box, steps, i, s, p, f); }
extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned, unsigned long long, cudaDriverEntryPointQueryResult *result) {
  *function = !strcmp(name, "cuTensorMapEncodeTiled") ? (void *)encoded : nullptr;
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
extern "C" CUresult cuDriverGetVersion(int *version) { *version = 13000; return CUDA_SUCCESS; }
extern "C" cudaError_t cudaDriverGetVersion(int *version) { *version = 13000; return cudaSuccess; }
extern "C" cudaError_t cudaRuntimeGetVersion(int *version) { *version = 13000; return cudaSuccess; }
extern "C" cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned) { return cudaMalloc(pointer, size); }
extern "C" cudaError_t cudaMallocHost(void **, size_t) { return cudaSuccess; }
extern "C" cudaError_t cudaMemcpy(void *, const void *, size_t, cudaMemcpyKind) { return cudaSuccess; }
extern "C" cudaError_t cudaMemGetInfo(size_t *free, size_t *total) { *free = *total = 141ul << 30; return cudaSuccess; }
