// Ends a measuring program at the first CUDA call that fails.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call)                                                            \
  do {                                                                         \
    cudaError_t error = (call);                                                \
    if (error) {                                                               \
      fprintf(stderr, "%s, line %d\n", cudaGetErrorString(error), __LINE__);   \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)
