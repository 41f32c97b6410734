// Pipes of one SM: each kernel repeats one instruction, as CHAINS independent chains a thread, and notes per warp
// when it began and when it ended. Rates come from many warps, latencies from one warp and one chain.

typedef unsigned long long u64;

// With 1024 threads a thread has 64 registers: without the bound a kernel may get more, and cannot be launched then.
#define KERNEL extern "C" __global__ void __launch_bounds__(1024)

static __device__ __forceinline__ void note(u64* times, long long begin, long long end) {
    if (threadIdx.x % 32 == 0) {
        times[2 * (threadIdx.x / 32)] = begin;
        times[2 * (threadIdx.x / 32) + 1] = end;
    }
}

// 64 instructions a turn. TYPE x, constants a and b. The constants come from memory, so that nothing is folded.
#define PIPE(NAME, TYPE, CHAINS, CONSTRAINT, TEXT)                                                           \
    KERNEL NAME(u64* times, const TYPE* from, TYPE* sink, int turns) {                                       \
        TYPE x[CHAINS];                                                                                      \
        const TYPE a = from[0], b = from[1];                                                                 \
        _Pragma("unroll") for (int c = 0; c < CHAINS; ++c) x[c] = from[2 + c] + threadIdx.x;                 \
        __syncthreads();                                                                                     \
        const long long begin = clock64();                                                                   \
        _Pragma("unroll 1") for (int t = 0; t < turns; ++t) {                                                \
            _Pragma("unroll") for (int i = 0; i < 64; ++i)                                                   \
                asm volatile(TEXT : "+" CONSTRAINT(x[i % CHAINS]) : CONSTRAINT(a), CONSTRAINT(b));           \
        }                                                                                                    \
        const long long end = clock64();                                                                     \
        TYPE sum = x[0];                                                                                     \
        _Pragma("unroll") for (int c = 1; c < CHAINS; ++c) sum += x[c];                                      \
        sink[threadIdx.x] = sum;                                                                             \
        note(times, begin, end);                                                                             \
    }

#define FFMA "fma.rn.f32 %0, %0, %1, %2;"
#define FMUL "mul.rn.f32 %0, %0, %1;"
#define FMNMX "max.f32 %0, %0, %1;\n min.f32 %0, %0, %2;"
#define LOP3 "lop3.b32 %0, %0, %1, %2, 0x96;"
#define IMAD "mad.lo.u32 %0, %0, %1, %2;"
#define EX2 "ex2.approx.ftz.f32 %0, %0;"
#define SHUFFLE "shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;"

PIPE(ffma_rate, float, 8, "f", FFMA)
PIPE(ffma_latency, float, 1, "f", FFMA)
PIPE(fmul_rate, float, 8, "f", FMUL)
PIPE(fmnmx_rate, float, 8, "f", FMNMX)
PIPE(lop3_rate, unsigned, 8, "r", LOP3)
PIPE(lop3_latency, unsigned, 1, "r", LOP3)
PIPE(imad_rate, unsigned, 8, "r", IMAD)
PIPE(ex2_rate, float, 8, "f", EX2)
PIPE(ex2_latency, float, 1, "f", EX2)
PIPE(shuffle_rate, unsigned, 8, "r", SHUFFLE)
PIPE(shuffle_latency, unsigned, 1, "r", SHUFFLE)

// Two floats to one register of halves, as before a product; the result feeds the next conversion's input.
KERNEL pack_rate(u64* times, const float* from, unsigned* sink, int turns) {
    float x[8];
#pragma unroll
    for (int c = 0; c < 8; ++c) x[c] = from[2 + c] + threadIdx.x;
    const float a = from[0];
    __syncthreads();
    const long long begin = clock64();
#pragma unroll 1
    for (int t = 0; t < turns; ++t) {
#pragma unroll
        for (int i = 0; i < 64; ++i)
            asm volatile("cvt.rn.f16x2.f32 %0, %0, %1;" : "+r"(*(unsigned*)&x[i % 8]) : "f"(a));
    }
    const long long end = clock64();
    unsigned sum = 0;
#pragma unroll
    for (int c = 0; c < 8; ++c) sum += __float_as_uint(x[c]);
    sink[threadIdx.x] = sum;
    note(times, begin, end);
}

// Two of three instructions to the FMA pipe, one to the ALU: only issue limits them. 66 instructions a turn.
KERNEL issue_rate(u64* times, const float* from, float* sink, int turns) {
    float x[8];
    unsigned y[4];
    const float a = from[0], b = from[1];
    const unsigned m = __float_as_uint(a), n = __float_as_uint(b);
#pragma unroll
    for (int c = 0; c < 8; ++c) x[c] = from[2 + c] + threadIdx.x;
#pragma unroll
    for (int c = 0; c < 4; ++c) y[c] = __float_as_uint(x[c]);
    __syncthreads();
    const long long begin = clock64();
#pragma unroll 1
    for (int t = 0; t < turns; ++t) {
#pragma unroll
        for (int i = 0; i < 22; ++i) {
            asm volatile(FFMA : "+f"(x[2 * i % 8]) : "f"(a), "f"(b));
            asm volatile(LOP3 : "+r"(y[i % 4]) : "r"(m), "r"(n));
            asm volatile(FFMA : "+f"(x[(2 * i + 1) % 8]) : "f"(a), "f"(b));
        }
    }
    const long long end = clock64();
    float sum = 0;
#pragma unroll
    for (int c = 0; c < 8; ++c) sum += x[c] + y[c % 4];
    sink[threadIdx.x] = sum;
    note(times, begin, end);
}

// 16 bytes a thread, no bank conflict; 32 loads a turn. They are volatile, so that none is dropped although nothing uses
// them: sums would keep more registers alive than 1024 threads have.
KERNEL smem_rate(u64* times, unsigned* sink, int turns) {
    extern __shared__ uint4 words[];
    for (unsigned i = threadIdx.x; i < 2048; i += blockDim.x) words[i] = make_uint4(i, i, i, i);
    __syncthreads();
    const unsigned at = (unsigned)__cvta_generic_to_shared(words) + 16 * (threadIdx.x % 1024);
    const long long begin = clock64();
#pragma unroll 1
    for (int t = 0; t < turns; ++t) {
#pragma unroll
        for (int i = 0; i < 32; ++i)
            asm volatile("{\n .reg .u32 a, b, c, d;\n ld.volatile.shared.v4.u32 {a, b, c, d}, [%0];\n}"
                         :: "r"(at + 16384 * (i % 2)) : "memory");
    }
    const long long end = clock64();
    sink[threadIdx.x] = at;
    note(times, begin, end);
}

KERNEL barriers(u64* times, int turns) {
    __syncthreads();
    const long long begin = clock64();
#pragma unroll 1
    for (int t = 0; t < turns; ++t) {
#pragma unroll
        for (int i = 0; i < 16; ++i) asm volatile("bar.sync 0;" ::: "memory");
    }
    const long long end = clock64();
    note(times, begin, end);
}

// mma.sync on registers; 16 products a turn. SHAPE and types name the instruction; A is 4 registers, B is 2.
#define MMA(NAME, CHAINS, INSTRUCTION)                                                                       \
    KERNEL NAME(u64* times, const unsigned* from, float* sink, int turns) {                                  \
        float d[CHAINS][4];                                                                                  \
        unsigned a[4], b[2];                                                                                 \
        _Pragma("unroll") for (int i = 0; i < 4; ++i) a[i] = from[i] + threadIdx.x;                          \
        _Pragma("unroll") for (int i = 0; i < 2; ++i) b[i] = from[4 + i] + threadIdx.x;                      \
        _Pragma("unroll") for (int c = 0; c < CHAINS; ++c)                                                   \
            _Pragma("unroll") for (int i = 0; i < 4; ++i) d[c][i] = 0;                                       \
        __syncthreads();                                                                                     \
        const long long begin = clock64();                                                                   \
        _Pragma("unroll 1") for (int t = 0; t < turns; ++t) {                                                \
            _Pragma("unroll") for (int i = 0; i < 16; ++i) {                                                 \
                float* c = d[i % CHAINS];                                                                    \
                asm volatile(INSTRUCTION " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"            \
                             : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                \
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));            \
            }                                                                                                \
        }                                                                                                    \
        float sum = 0;                                                                                       \
        _Pragma("unroll") for (int c = 0; c < CHAINS; ++c)                                                   \
            _Pragma("unroll") for (int i = 0; i < 4; ++i) sum += d[c][i];                                    \
        const long long end = clock64();                                                                     \
        sink[threadIdx.x] = sum;                                                                             \
        note(times, begin, end);                                                                             \
    }

#define F16 "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#define BF16 "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#define TF32 "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
MMA(mma_f16_rate, 8, F16)
MMA(mma_f16_latency, 1, F16)
MMA(mma_bf16_rate, 8, BF16)
MMA(mma_tf32_rate, 8, TF32)
// Hopper has no fp8 mma.sync of its own: the compiler converts to fp16 there.
#if __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200
MMA(mma_e4m3_rate, 8, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")
#endif
