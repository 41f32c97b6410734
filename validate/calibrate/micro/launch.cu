// What a launch costs: kernels that do nothing, and CTAs that note when and where they ran.

typedef unsigned long long u64;

extern "C" __global__ void nothing() {}

// Each CTA fills its SM (shared memory), spins, and notes SM, begin and end.
extern "C" __global__ void turnover(u64* notes, int spin) {
    extern __shared__ char room[];
    const long long begin = clock64();
    if (threadIdx.x == 0) {
        unsigned sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        room[0] = (char)sm;
        while (clock64() - begin < spin) {}
        notes[3 * blockIdx.x] = sm;
        notes[3 * blockIdx.x + 1] = begin;
        notes[3 * blockIdx.x + 2] = clock64();
    }
}

// Cycles and nanoseconds of a spin of `duration` ns.
extern "C" __global__ void clock_rate(u64* out, u64 duration) {
    u64 start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    const long long begin = clock64();
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - start < duration);
    out[0] = clock64() - begin;
    out[1] = now - start;
}
