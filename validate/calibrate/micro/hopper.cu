// Hopper's own instructions: wgmma streams and waits, other instructions beside a wgmma stream, bulk copies.
// Needs sm_90a. The accumulators are PTX registers that several asm statements share by name: c000 ... c177, octal,
// because an operand list of 128 C variables would hide what is measured.

typedef unsigned long long u64;

static __device__ __forceinline__ void note(u64* times, long long begin, long long end) {
    if (threadIdx.x % 32 == 0) {
        times[2 * (threadIdx.x / 32)] = begin;
        times[2 * (threadIdx.x / 32) + 1] = end;
    }
}

#define LIST8(p) "c" #p "0,c" #p "1,c" #p "2,c" #p "3,c" #p "4,c" #p "5,c" #p "6,c" #p "7"
#define ZERO1(p) "mov.f32 c" #p ", 0f00000000;"
#define ZERO8(p) ZERO1(p##0) ZERO1(p##1) ZERO1(p##2) ZERO1(p##3) ZERO1(p##4) ZERO1(p##5) ZERO1(p##6) ZERO1(p##7)
#define SUM1(p) "add.f32 %0, %0, c" #p ";"
#define SUM8(p) SUM1(p##0) SUM1(p##1) SUM1(p##2) SUM1(p##3) SUM1(p##4) SUM1(p##5) SUM1(p##6) SUM1(p##7)
#define N16(M, S) M(00)
#define N32(M, S) M(00) S M(01)
#define N64(M, S) M(00) S M(01) S M(02) S M(03)
#define N128(M, S) N64(M, S) S M(04) S M(05) S M(06) S M(07)
#define N256(M, S) N128(M, S) S M(10) S M(11) S M(12) S M(13) S M(14) S M(15) S M(16) S M(17)

// Declares and clears the accumulators of a product with COLUMNS columns; `p` keeps adding to them.
#define ACCUMULATORS(COLUMNS)                                                                                \
    asm volatile(".reg .pred p;\n setp.eq.u32 p, 0, 0;\n .reg .f32 " N##COLUMNS(LIST8, ",") ";\n"           \
                 N##COLUMNS(ZERO8, ""))
#define SUM_OF(COLUMNS, SUM) asm volatile(N##COLUMNS(SUM8, "") : "+f"(SUM))
#define FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(LEFT) asm volatile("wgmma.wait_group.sync.aligned " #LEFT ";" ::: "memory")

// One product of 64 rows. TYPES: k and types, e.g. k16.f32.f16.f16; TRANSPOSE: where the types take such flags.
#define FROM_SMEM(COLUMNS, TYPES, TRANSPOSE)                                                                 \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #COLUMNS TYPES " {" N##COLUMNS(LIST8, ",")              \
                 "}, %0, %1, p, 1, 1" TRANSPOSE TRANSPOSE ";" :: "l"(a_tile), "l"(b_tile) : "memory")
#define FROM_REGISTERS(COLUMNS, TYPES, TRANSPOSE)                                                            \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #COLUMNS TYPES " {" N##COLUMNS(LIST8, ",")              \
                 "}, {%0,%1,%2,%3}, %4, p, 1, 1" TRANSPOSE ";"                                               \
                 :: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_tile) : "memory")
#define F16 "k16.f32.f16.f16", ", 0"
#define BF16 "k16.f32.bf16.bf16", ", 0"
#define TF32 "k8.f32.tf32.tf32", ""
#define E4M3 "k32.f32.e4m3.e4m3", ""
#define PRODUCT(SOURCE, COLUMNS, ...) SOURCE(COLUMNS, __VA_ARGS__)

// Shared memory: A at 0 (64 rows of 128 B), B at 8 KiB (256 rows of 128 B), both with the 128 B swizzle.
#define TILES_BYTES (8192 + 32768)
static __device__ __forceinline__ u64 descriptor(unsigned at) {
    return (u64)((at & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

// Fills the tiles: zeros, or halves of either sign from 0.5 to 2.
static __device__ __forceinline__ void fill(unsigned* words, int random) {
    for (unsigned i = threadIdx.x; i < TILES_BYTES / 4; i += blockDim.x) {
        unsigned h = (i + 1) * 2654435761u;
        h = (h ^ (h >> 15)) * 2246822519u;
        h ^= h >> 13;
        words[i] = random ? (h & 0x87ff87ffu) | 0x38003800u : 0u;
    }
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
}

#define SETUP(COLUMNS)                                                                                       \
    extern __shared__ __align__(1024) unsigned words[];                                                      \
    fill(words, random);                                                                                     \
    const unsigned at = (unsigned)__cvta_generic_to_shared(words);                                           \
    const u64 a_tile = descriptor(at), b_tile = descriptor(at + 8192);                                       \
    const unsigned a[4] = {words[threadIdx.x], words[threadIdx.x + 512], words[threadIdx.x + 1024],          \
                           words[threadIdx.x + 1536]};                                                       \
    ACCUMULATORS(COLUMNS);                                                                                   \
    __syncthreads();

#define FINISH(COLUMNS)                                                                                      \
    const long long end = clock64();                                                                         \
    float sum = a[0] + a[1] + a[2] + a[3];                                                                   \
    SUM_OF(COLUMNS, sum);                                                                                    \
    sink[threadIdx.x] = sum;                                                                                 \
    note(times, begin, end);

// 8 products a turn, one turn in flight behind the other.
#define STREAM(NAME, SOURCE, COLUMNS, ...)                                                                   \
    extern "C" __global__ void __launch_bounds__(256) NAME(u64* times, float* sink, int turns, int random) { \
        SETUP(COLUMNS)                                                                                       \
        const long long begin = clock64();                                                                   \
        _Pragma("unroll 1") for (int t = 0; t < turns; ++t) {                                                \
            FENCE();                                                                                         \
            _Pragma("unroll") for (int i = 0; i < 8; ++i) PRODUCT(SOURCE, COLUMNS, __VA_ARGS__);             \
            COMMIT();                                                                                        \
            WAIT(1);                                                                                         \
        }                                                                                                    \
        WAIT(0);                                                                                             \
        FINISH(COLUMNS)                                                                                      \
    }

// COUNT products, a commit and the wait for them a turn. What a turn takes beyond COUNT intervals is the wait.
#define WAITED(NAME, SOURCE, COLUMNS, COUNT)                                                                 \
    extern "C" __global__ void __launch_bounds__(256) NAME(u64* times, float* sink, int turns, int random) { \
        SETUP(COLUMNS)                                                                                       \
        const long long begin = clock64();                                                                   \
        _Pragma("unroll 1") for (int t = 0; t < turns; ++t) {                                                \
            FENCE();                                                                                         \
            _Pragma("unroll") for (int i = 0; i < COUNT; ++i) PRODUCT(SOURCE, COLUMNS, F16);                 \
            COMMIT();                                                                                        \
            WAIT(0);                                                                                         \
        }                                                                                                    \
        FINISH(COLUMNS)                                                                                      \
    }

#define BOTH(COLUMNS)                                                                                        \
    STREAM(wgmma_f16_n##COLUMNS##_smem, FROM_SMEM, COLUMNS, F16)                                             \
    STREAM(wgmma_f16_n##COLUMNS##_registers, FROM_REGISTERS, COLUMNS, F16)                                   \
    WAITED(wgmma_wait1_n##COLUMNS##_smem, FROM_SMEM, COLUMNS, 1)                                             \
    WAITED(wgmma_wait4_n##COLUMNS##_smem, FROM_SMEM, COLUMNS, 4)                                             \
    WAITED(wgmma_wait1_n##COLUMNS##_registers, FROM_REGISTERS, COLUMNS, 1)                                   \
    WAITED(wgmma_wait4_n##COLUMNS##_registers, FROM_REGISTERS, COLUMNS, 4)
BOTH(16)
BOTH(32)
BOTH(64)
BOTH(128)
BOTH(256)
STREAM(wgmma_bf16_n128_smem, FROM_SMEM, 128, BF16)
STREAM(wgmma_tf32_n128_smem, FROM_SMEM, 128, TF32)
STREAM(wgmma_e4m3_n128_smem, FROM_SMEM, 128, E4M3)

// Whether all 128 threads of the first four warps say so: they must agree how often they multiply.
static __device__ __forceinline__ bool agreed(bool own) {
    int all;
    asm volatile("{\n .reg .pred q, r;\n setp.ne.s32 q, %1, 0;\n"
                 " barrier.cta.red.and.pred r, 1, 128, q;\n selp.s32 %0, 1, 0, r;\n}"
                 : "=r"(all) : "r"((int)own) : "memory");
    return all != 0;
}

// For `window` cycles, warps 0 to 3 stream products, 8 a turn, and the others repeat another instruction, 512 a turn, as
// CHAINS chains a thread: both as fast as the other lets them. `products` and `others` are 0 where a side rests.
// Each warp notes begin, end and turns. Few chains want the pipe for a part of the time only.
#define BESIDE(NAME, SOURCE, TYPE, CONSTRAINT, CHAINS, TEXT)                                                 \
    extern "C" __global__ void __launch_bounds__(384)                                                        \
        NAME(u64* notes, const TYPE* from, float* sink, int products, int others, int window, int random) {  \
        SETUP(128)                                                                                           \
        TYPE x[CHAINS];                                                                                      \
        const TYPE u = from[0], v = from[1];                                                                 \
        _Pragma("unroll") for (int c = 0; c < CHAINS; ++c) x[c] = from[2 + c] + threadIdx.x;                 \
        int turns = 0;                                                                                       \
        __syncthreads();                                                                                     \
        const long long begin = clock64();                                                                   \
        if (threadIdx.x < 128) {                                                                             \
            _Pragma("unroll 1") while (agreed(products && clock64() - begin < window)) {                     \
                FENCE();                                                                                     \
                _Pragma("unroll") for (int i = 0; i < 8; ++i) PRODUCT(SOURCE, 128, F16);                     \
                COMMIT();                                                                                    \
                WAIT(1);                                                                                     \
                ++turns;                                                                                     \
            }                                                                                                \
            WAIT(0);                                                                                         \
        } else {                                                                                             \
            _Pragma("unroll 1") while (others && clock64() - begin < window) {                               \
                _Pragma("unroll 1") for (int t = 0; t < 8; ++t) {                                            \
                    _Pragma("unroll") for (int i = 0; i < 64; ++i)                                           \
                        asm volatile(TEXT : "+" CONSTRAINT(x[i % CHAINS]) : CONSTRAINT(u), CONSTRAINT(v));   \
                }                                                                                            \
                ++turns;                                                                                     \
            }                                                                                                \
        }                                                                                                    \
        const long long end = clock64();                                                                     \
        float sum = a[0] + a[1] + a[2] + a[3];                                                               \
        _Pragma("unroll") for (int c = 0; c < CHAINS; ++c) sum += x[c];                                      \
        SUM_OF(128, sum);                                                                                    \
        sink[threadIdx.x] = sum;                                                                             \
        if (threadIdx.x % 32 == 0) {                                                                         \
            notes[3 * (threadIdx.x / 32)] = begin;                                                           \
            notes[3 * (threadIdx.x / 32) + 1] = end;                                                         \
            notes[3 * (threadIdx.x / 32) + 2] = turns;                                                       \
        }                                                                                                    \
    }
#define BESIDE_BOTH(NAME, TYPE, CONSTRAINT, CHAINS, TEXT)                                                    \
    BESIDE(beside_smem_##NAME, FROM_SMEM, TYPE, CONSTRAINT, CHAINS, TEXT)                                    \
    BESIDE(beside_registers_##NAME, FROM_REGISTERS, TYPE, CONSTRAINT, CHAINS, TEXT)
#define FFMA "fma.rn.f32 %0, %0, %1, %2;"
#define LOP3 "lop3.b32 %0, %0, %1, %2, 0x96;"
BESIDE_BOTH(ffma, float, "f", 8, FFMA)
BESIDE_BOTH(ffma_half, float, "f", 2, FFMA)
BESIDE_BOTH(ffma_quarter, float, "f", 1, FFMA)
BESIDE_BOTH(fmul, float, "f", 8, "mul.rn.f32 %0, %0, %1;")
BESIDE_BOTH(fmnmx, float, "f", 8, "max.f32 %0, %0, %1;\n min.f32 %0, %0, %2;")
BESIDE_BOTH(lop3, unsigned, "r", 8, LOP3)
BESIDE_BOTH(lop3_half, unsigned, "r", 1, LOP3)
BESIDE_BOTH(ex2, float, "f", 8, "ex2.approx.ftz.f32 %0, %0;")

// Tiles of 16 KiB by one bulk copy, announced to an mbarrier; else as tile_copies of memory.cu.
extern "C" __global__ void __launch_bounds__(128) bulk_copies(const char* data, unsigned tiles, unsigned step,
                                                              int copies, int period, u64* out) {
    extern __shared__ __align__(128) char tile[];
    __shared__ u64 arrived;
    const unsigned to = (unsigned)__cvta_generic_to_shared(tile);
    const unsigned barrier = (unsigned)__cvta_generic_to_shared(&arrived);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;\n fence.proxy.async;" :: "r"(barrier) : "memory");
    __syncthreads();
    unsigned at = blockIdx.x % tiles;
    u64 waited = 0;
    long long due = clock64() + (long long)(((u64)(blockIdx.x * 2654435769u) * (unsigned)period) >> 32);
    while (clock64() < due) {}
    __syncthreads();
    const long long first = clock64();
    for (int i = 0; i < copies; ++i) {
        const long long begin = clock64();
        if (threadIdx.x == 0)
            asm volatile("{\n .reg .b64 state;\n"
                         "mbarrier.arrive.expect_tx.shared.b64 state, [%0], 16384;\n"
                         "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2], 16384, [%0];\n}"
                         :: "r"(barrier), "r"(to), "l"(data + 16384ull * at) : "memory");
        unsigned done = 0;
        while (!done)
            asm volatile("{\n .reg .pred there;\n"
                         "mbarrier.try_wait.parity.shared.b64 there, [%1], %2;\n selp.u32 %0, 1, 0, there;\n}"
                         : "=r"(done) : "r"(barrier), "r"(i & 1) : "memory");
        waited += clock64() - begin;
        at = (at + step) % tiles;
        due += period;
        while (clock64() < due) {}
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = waited;
        out[2 * blockIdx.x + 1] = clock64() - first;
    }
}

static __device__ __forceinline__ u64 nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// Load for the clock. Warps 0 to 7 stream products on random data, per turn 64 of each warpgroup and then `pause` ns of
// rest; warps 8 to 15 read the buffer, 32 KiB a turn, until their turns or the other side's are over.
// out per CTA: cycles, ns, turns of reading.
extern "C" __global__ void __launch_bounds__(512)
    load(u64* out, const uint4* data, u64 vectors, float* sink, int tensor_turns, int pause, int memory_turns) {
    const int random = 1;
    SETUP(128)
    const u64 a_first = a_tile, b_first = b_tile;
    __shared__ volatile int busy[2];
    if (threadIdx.x == 0) busy[0] = tensor_turns > 0;
    __syncthreads();
    const u64 start = nanoseconds();
    const long long begin = clock64();
    float sum = a[0] + a[1] + a[2] + a[3];
    if (threadIdx.x < 256) {
#pragma unroll 1
        for (int turn = 0; turn < tensor_turns; ++turn) {
#pragma unroll 1
            for (int t = 0; t < 8; ++t) {
                // Sums start anew every turn and operands change, as in a matrix product: power depends on both.
                asm volatile("setp.ne.u32 p, %0, 0;" :: "r"(t));
                FENCE();
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    const u64 a_tile = a_first + 2 * (i % 4), b_tile = b_first + 2 * (i % 4) + 1024 * (i / 4);
                    PRODUCT(FROM_SMEM, 128, F16);
                }
                COMMIT();
                WAIT(1);
            }
            WAIT(0);
            if (pause) __nanosleep(pause);
        }
        busy[0] = 0;
    } else {
        int turn = 0;
        u64 base = blockIdx.x * 2048ull;
        for (; turn < memory_turns && (tensor_turns == 0 || busy[0]); ++turn) {
            const unsigned to = at + TILES_BYTES + 32768 * (turn % 2) + 16 * (threadIdx.x - 256);
            const uint4* from = data + base + threadIdx.x - 256;
#pragma unroll
            for (int i = 0; i < 8; ++i)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to + 4096 * i), "l"(from + 256 * i) : "memory");
            asm volatile("cp.async.commit_group;\n cp.async.wait_group 1;" ::: "memory");
            base += gridDim.x * 2048ull;
            if (base + 2048 > vectors) base = blockIdx.x * 2048ull;
        }
        if (threadIdx.x == 256) busy[1] = turn;
    }
    SUM_OF(128, sum);
    if (sum == 12345.678f) *sink = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        out[3 * blockIdx.x] = clock64() - begin;
        out[3 * blockIdx.x + 1] = nanoseconds() - start;
        out[3 * blockIdx.x + 2] = busy[1];
    }
}
