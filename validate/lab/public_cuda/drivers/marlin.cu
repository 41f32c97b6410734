// Marlin: weights of 4 bits, Llama-3 8B (4096 x 14336), groups of 128
#include "given.h"
#include "marlin_cuda_kernel.cu"
int main() {
  volatile char room[65536]; room[0] = 0;
  const long k = 4096, n = 14336;
  const char *names[] = {"marlin_64", "marlin_1024"};
  const int rows[] = {64, 1024};
  for (int i = 0; i < 2; ++i) {
    label(names[i]);
    long m = rows[i];
    marlin_cuda(given("a", "fp16", {m, k}), given("b", "int32", {k / 16, n * 2}), given("c", "fp16", {m, n}), given("s", "fp16", {k / 128, n}), m, n, k,
      given("locks", "int32", {n / 128 * 16}, "fill:0"), 128);
  }
}
