// Memory levels: streams through HBM, lists of lines read by chosen SMs, single loads timed one by one, tile copies.
// A line is 128 bytes, eight 16-byte vectors. CTAs find their work by the SM they run on.

typedef unsigned long long u64;

static __device__ __forceinline__ uint4 load_streaming(const uint4* from) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    return v;
}

static __device__ __forceinline__ unsigned this_sm() {
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

// A sum that is never this value keeps the loads alive without a store.
static __device__ __forceinline__ void keep(unsigned sum, unsigned* sink) {
    if (sum == 0x9e3779b9u) *sink = sum;
}

#define UNROLL 8

// vectors: a multiple of UNROLL * blockDim.x.
extern "C" __global__ void stream_read(const uint4* from, u64 vectors, unsigned* sink) {
    const u64 chunk = (u64)UNROLL * blockDim.x;
    unsigned sum = 0;
    for (u64 base = blockIdx.x * chunk; base < vectors; base += gridDim.x * chunk) {
        uint4 v[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) v[i] = load_streaming(from + base + i * blockDim.x + threadIdx.x);
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) sum += v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
    }
    keep(sum, sink);
}

extern "C" __global__ void stream_write(uint4* to, u64 vectors, unsigned value) {
    const u64 chunk = (u64)UNROLL * blockDim.x;
    const uint4 v = make_uint4(value, value, value, value);
    for (u64 base = blockIdx.x * chunk; base < vectors; base += gridDim.x * chunk) {
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) to[base + i * blockDim.x + threadIdx.x] = v;
    }
}

extern "C" __global__ void stream_copy(const uint4* from, uint4* to, u64 vectors) {
    const u64 chunk = (u64)UNROLL * blockDim.x;
    for (u64 base = blockIdx.x * chunk; base < vectors; base += gridDim.x * chunk) {
        uint4 v[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) v[i] = load_streaming(from + base + i * blockDim.x + threadIdx.x);
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) to[base + i * blockDim.x + threadIdx.x] = v[i];
    }
}

// A load that is ordered among all SMs comes from L2, whatever L1 holds. (cp.async.cg and L1::no_allocate do not promise
// that: copies that follow each other to the same place in shared memory ran at twice the rate that L2 has.)
static __device__ __forceinline__ unsigned load_past_l1(const char* from) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from) : "memory");
    return v.x ^ v.y ^ v.z ^ v.w;
}

// Each SM reads its list of lines `repeats` times past L1. lists: SM after SM, `stride` entries each; counts: per SM.
// cycles: per SM, the list itself fetched before.
extern "C" __global__ void __launch_bounds__(1024) gather(const char* data, const unsigned* lists,
                                                          const unsigned* counts, unsigned stride, int repeats,
                                                          u64* cycles) {
    extern __shared__ unsigned lines[];
    const unsigned sm = this_sm(), count = counts[sm];
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) lines[i] = lists[sm * stride + i];
    __syncthreads();
    const char* mine = data + 16 * (threadIdx.x % 8);
    unsigned sum = 0;
    const long long begin = clock64();
#pragma unroll 1
    for (int r = 0; r < repeats; ++r) {
#pragma unroll 4
        for (unsigned i = threadIdx.x / 8; i < count; i += blockDim.x / 8)
            sum += load_past_l1(mine + 128ull * lines[i]);
    }
    __syncthreads();
    if (threadIdx.x == 0) cycles[sm] = clock64() - begin;
    keep(sum, (unsigned*)(cycles + sm));
}

// Each SM writes zeros to its list of lines, so that they stand at home alone, in whole: copies elsewhere are dropped.
extern "C" __global__ void scatter(uint4* data, const unsigned* lists, const unsigned* counts, unsigned stride) {
    const unsigned sm = this_sm(), count = counts[sm];
    for (unsigned i = threadIdx.x / 8; i < count; i += blockDim.x / 8)
        data[8ull * lists[sm * stride + i] + threadIdx.x % 8] = make_uint4(0, 0, 0, 0);
}

// One thread of each SM loads its lines one after the other and writes down the cycles of each load.
// The buffer must hold zeros: what is loaded is added to the next address.
extern "C" __global__ void probe(const char* data, const unsigned* lists, const unsigned* counts, unsigned stride,
                                 unsigned* latency) {
    extern __shared__ unsigned lines[];
    const unsigned sm = this_sm(), count = counts[sm];
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) lines[i] = lists[sm * stride + i];
    __syncthreads();
    if (threadIdx.x) return;
    unsigned value = 0;
    for (unsigned i = 0; i < count; ++i) {
        const char* at = data + 128ull * lines[i] + value;
        unsigned begin, end;
        asm volatile("mov.u32 %0, %%clock;" : "=r"(begin) :: "memory");
        asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
        lines[i] = value;  // waits for the load
        asm volatile("mov.u32 %0, %%clock;" : "=r"(end) :: "memory");
        latency[sm * stride + i] = end - begin;
    }
}

// One thread a CTA follows pointers, each from a place of its own; `loads` is a multiple of 16.
// out per CTA: cycles of the second pass.
#define CHASE(NAME, LOAD)                                                                                    \
    extern "C" __global__ void NAME(const u64* starts, int loads, u64* out, unsigned* sink) {                \
        u64 at = starts[blockIdx.x];                                                                         \
        long long begin = 0;                                                                                 \
        _Pragma("unroll 1") for (int pass = 0; pass < 2; ++pass) {                                           \
            begin = clock64();                                                                               \
            _Pragma("unroll 1") for (int i = 0; i < loads; i += 16) {                                        \
                _Pragma("unroll") for (int j = 0; j < 16; ++j)                                               \
                    asm volatile(LOAD " %0, [%0];" : "+l"(at) :: "memory");                                  \
            }                                                                                                \
            if (at == 1) *sink = 1;                                                                          \
            out[blockIdx.x] = clock64() - begin;                                                             \
        }                                                                                                    \
    }
CHASE(chase_l1, "ld.global.ca.u64")
CHASE(chase_l2, "ld.global.cg.u64")

// Pointers into shared memory: each word holds the offset of the next.
extern "C" __global__ void chase_smem(int loads, u64* out, unsigned* sink) {
    __shared__ unsigned chain[1024];
    const unsigned base = (unsigned)__cvta_generic_to_shared(chain);
    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) chain[i] = base + 4 * ((i + 33) % 1024);
    __syncthreads();
    if (threadIdx.x) return;
    unsigned at = base;
    const long long begin = clock64();
#pragma unroll 1
    for (int i = 0; i < loads; i += 16) {
#pragma unroll
        for (int j = 0; j < 16; ++j) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at) :: "memory");
    }
    if (at == 1) *sink = 1;
    out[0] = clock64() - begin;
}

// Tiles of 128 threads x 8 x 16 B = 16 KiB by cp.async, one at a time, a tile every `period` cycles or as fast as they
// come. CTAs begin at different parts of a period, else all tiles would be wanted in the same moment. CTA b reads tiles
// b, b + step, ... modulo `tiles`. out per CTA: cycles from the first copy until the CTA has passed a barrier behind
// the wait, summed over tiles; then cycles of the whole loop.
extern "C" __global__ void __launch_bounds__(128) tile_copies(const char* data, unsigned tiles, unsigned step,
                                                              int copies, int period, u64* out) {
    extern __shared__ char tile[];
    const unsigned to = (unsigned)__cvta_generic_to_shared(tile) + 16 * threadIdx.x;
    unsigned at = blockIdx.x % tiles;
    u64 waited = 0;
    long long due = clock64() + (long long)(((u64)(blockIdx.x * 2654435769u) * (unsigned)period) >> 32);
    while (clock64() < due) {}
    __syncthreads();
    const long long first = clock64();
    for (int i = 0; i < copies; ++i) {
        const char* from = data + 16384ull * at + 16 * threadIdx.x;
        const long long begin = clock64();
#pragma unroll
        for (int j = 0; j < 8; ++j)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to + 2048 * j), "l"(from + 2048 * j) : "memory");
        asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        waited += clock64() - begin;
        at = (at + step) % tiles;
        due += period;
        while (clock64() < due) {}
    }
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = waited;
        out[2 * blockIdx.x + 1] = clock64() - first;
    }
}
