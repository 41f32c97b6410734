// Reads a buffer, so that L2 holds nothing that is still to be written.
extern "C" __global__ void read_all(const uint4 *from, unsigned *sink, int n) {
  unsigned sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += __ldcg(&from[i]).x;
  if (sum == 12345u) *sink = sum;
}
