# ruff: noqa: E501, E731
"""What atomics, small rows, mixed streams and spilled registers take on a GPU.

    python memory_paths.py > memory_paths.jsonl          (about 10 s; prints a JSON object a line)
    ncu --csv --page raw --print-units base --clock-control none --cache-control none \
        --metrics dram__bytes_read.sum,dram__bytes_write.sum,sm__cycles_elapsed.max,gpu__time_duration.sum,\
lts__t_sectors_srcunit_tex.sum,lts__t_sectors_srcunit_ltcfabric.sum,l1tex__m_xbar2l1tex_read_bytes.sum,l1tex__m_l1tex2xbar_write_bytes.sum \
        python memory_paths.py counted > memory_paths.csv   (about 20 s: every launch once; names follow on stderr)

CUDA kernels, compiled by torch's NVRTC: needs torch 2.9 or later and a GPU of compute capability 9.0.
"""

import json
import sys

import torch

SOURCE = r"""
typedef unsigned int u32; typedef unsigned long long u64;
__device__ __forceinline__ void red1(float* p, float v) { asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" :: "l"(p), "f"(v) : "memory"); }
__device__ __forceinline__ void red4(float* p, float v) { asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1,%1,%1,%1};" :: "l"(p), "f"(v) : "memory"); }
__device__ __forceinline__ float atom1(float* p, float v) { float r; asm volatile("atom.relaxed.gpu.global.add.f32 %0, [%1], %2;" : "=f"(r) : "l"(p), "f"(v) : "memory"); return r; }
__device__ __forceinline__ float atom1ar(float* p, float v) { float r; asm volatile("atom.acq_rel.gpu.global.add.f32 %0, [%1], %2;" : "=f"(r) : "l"(p), "f"(v) : "memory"); return r; }
__device__ __forceinline__ float atom4ar(float* p, float v) { float a,b,c,d; asm volatile("atom.acq_rel.gpu.global.add.v4.f32 {%0,%1,%2,%3}, [%4], {%5,%5,%5,%5};" : "=f"(a),"=f"(b),"=f"(c),"=f"(d) : "l"(p), "f"(v) : "memory"); return a+b+c+d; }
__device__ __forceinline__ u32 casar(u32* p, u32 c, u32 v) { u32 r; asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], %2, %3;" : "=r"(r) : "l"(p), "r"(c), "r"(v) : "memory"); return r; }

// Atomics. kind 0 RED f32, 1 RED v4.f32, 2 ATOM f32 acq_rel, 3 ATOM v4.f32 acq_rel, 4 store v4, 5 RED to one address a
// warp, 6 RED to one address for all, 7 CAS acq_rel of an address of each thread's warp (lane 0), 8 the same of one for all (retries),
// 9 dependent ATOM f32 (lane 0: latency), 10 store + membar.gpu, 11 RED f32 at a stride of 32 B a lane, 12 bf16x2 RED
extern "C" __global__ void atomics(float* p, int mask, int iters, int kind, long long* cycles, float* sink) {
  u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, warps = gridDim.x * blockDim.x / 32;
  float got = 0;
  __syncthreads();
  long long begin = clock64();
  for (int i = 0; i < iters; ++i) {
    u32 line = (u32)i * warps + warp;
    if (kind == 0) red1(p + ((line * 32 + lane) & mask), 1.f);
    else if (kind == 1) red4(p + ((line * 128 + lane * 4) & mask), 1.f);
    else if (kind == 2) got += atom1ar(p + ((line * 32 + lane) & mask), 1.f);
    else if (kind == 3) got += atom4ar(p + ((line * 128 + lane * 4) & mask), 1.f);
    else if (kind == 4) asm volatile("st.global.v4.f32 [%0], {%1,%1,%1,%1};" :: "l"(p + ((line * 128 + lane * 4) & mask)), "f"(1.f) : "memory");
    else if (kind == 5) red1(p + ((line * 32) & mask), 1.f);
    else if (kind == 6) red1(p, 1.f);
    else if (kind == 7) { if (lane == 0) got += (float)casar((u32*)p + ((warp * 32) & mask), 0u, 0u); }
    else if (kind == 8) { if (lane == 0) { u32 old; do { old = *(volatile u32*)p; } while (casar((u32*)p, old, old + 1) != old); } }
    else if (kind == 9) { if (lane == 0) got = atom1(p + ((warp * 32 + (int)(got * 0.f)) & mask), 0.f); }
    else if (kind == 10) { asm volatile("st.global.f32 [%0], %1;" :: "l"(p + ((line * 32 + lane) & mask)), "f"(1.f) : "memory"); __threadfence(); }
    else if (kind == 11) red1(p + ((line * 256 + lane * 8) & mask), 1.f);
    else if (kind == 12) asm volatile("red.relaxed.gpu.global.add.noftz.bf16x2 [%0], %1;" :: "l"(p + ((line * 32 + lane) & mask)), "r"(0u) : "memory");
  }
  __threadfence();
  long long took = clock64() - begin;
  if (lane == 0) cycles[warp] = took;
  if (got == 12345.f) *sink = got;
}

// Rows of `bytes` at `pitch`: a warp moves 4 KiB of rows in turn. reads, writes: of each row, which.
extern "C" __global__ void rows(const char* from, char* to, int count, int bytes, int pitch, int reads, int writes, float* sink) {
  u32 thread = blockIdx.x * blockDim.x + threadIdx.x, each = bytes / 16, all = gridDim.x * blockDim.x;
  float got = 0;
  for (u32 at = thread; at < (u32)count * each; at += all) {
    u64 place = (u64)(at / each) * pitch + at % each * 16;
    float4 v = make_float4(1, 2, 3, 4);
    if (reads) { asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x),"=f"(v.y),"=f"(v.z),"=f"(v.w) : "l"(from + place)); got += v.x; }
    if (writes) asm volatile("st.global.v4.f32 [%0], {%1,%2,%3,%4};" :: "l"(to + place), "f"(v.x),"f"(v.y),"f"(v.z),"f"(v.w) : "memory");
  }
  if (got == 12345.f) *sink = got;
}

// Streams: a CTA reads `reads` blocks of 16 KiB and then writes `writes` of them; in place or elsewhere.
extern "C" __global__ void streams(const char* from, char* to, int blocks, int reads, int writes, float* sink) {
  float got = 0;
  for (int b = blockIdx.x; b < blocks; b += gridDim.x) {
    for (int r = 0; r < reads; ++r)
#pragma unroll 4
      for (int at = threadIdx.x * 16; at < 16384; at += blockDim.x * 16) {
        float4 v; asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x),"=f"(v.y),"=f"(v.z),"=f"(v.w) : "l"(from + ((u64)b * reads + r) * 16384 + at)); got += v.x;
      }
    for (int w = 0; w < writes; ++w)
#pragma unroll 4
      for (int at = threadIdx.x * 16; at < 16384; at += blockDim.x * 16)
        asm volatile("st.global.v4.f32 [%0], {%1,%1,%1,%1};" :: "l"(to + ((u64)b * writes + w) * 16384 + at), "f"(got) : "memory");
  }
  if (got == 12345.f) *sink = got;
}

// A stack of WORDS words a thread: all written, then all read, `iters` times.
#define SPILL(WORDS) \
extern "C" __global__ void __launch_bounds__(512) spill_##WORDS(int iters, int zero, float* sink) { \
  u32 stack[WORDS]; u32 got = 0; \
  for (int i = 0; i < iters; ++i) { \
    _Pragma("unroll 8") for (int w = 0; w < WORDS; ++w) *(volatile u32*)&stack[(w + zero) % WORDS] = i + w; \
    _Pragma("unroll 8") for (int w = 0; w < WORDS; ++w) got += *(volatile u32*)&stack[(w + zero) % WORDS]; \
  } \
  if (got == 12345u) *sink = got; }
SPILL(64) SPILL(128) SPILL(192) SPILL(256) SPILL(384) SPILL(512) SPILL(768) SPILL(1024)
"""
COUNTED = len(sys.argv) > 1 and sys.argv[1] == "counted"
SMS = torch.cuda.get_device_properties(0).multi_processor_count
SINK = torch.zeros(4, device="cuda")
CYCLES = torch.zeros(1 << 16, dtype=torch.int64, device="cuda")
NUMBER = 0
KERNELS = {}


def kernel(name):
    if name not in KERNELS:
        KERNELS[name] = torch.cuda._compile_kernel(SOURCE, name)
    return KERNELS[name]


def on_progress(**what):
    print(json.dumps(what), flush=True, file=sys.stderr if COUNTED else sys.stdout)


def run(name, ctas, threads, args, again=3, **what):
    """Time a launch on a warm L2, three times; once under ncu."""
    launch = lambda: kernel(name)(grid=(ctas, 1, 1), block=(threads, 1, 1), args=args)
    if COUNTED:
        launch()
        torch.cuda.synchronize()
        return on_progress(kernel=name, ctas=ctas, threads=threads, **what)
    launch()
    times = []
    for _ in range(again):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    on_progress(kernel=name, ctas=ctas, threads=threads, us=min(times), **what)


KINDS = [
    "red",
    "red_v4",
    "atom_acq_rel",
    "atom_v4_acq_rel",
    "store_v4",
    "red_warp_address",
    "red_one_address",
    "cas_acq_rel",
    "cas_one_address",
    "atom_latency",
    "store_membar",
    "red_32B_apart",
    "red_bf16x2",
]


def atomics():
    data = torch.zeros(1 << 27, device="cuda")  # 512 MB
    for kind, name in enumerate(KINDS):
        slow = name in ("red_one_address", "cas_one_address")
        for ctas, threads in ((1, 32), (1, 128), (SMS, 32), (SMS, 256), (4 * SMS, 256)):
            for megabytes in (1,) if slow or name in ("cas_acq_rel", "atom_latency") else (1, 16, 512):
                if (ctas == 1 and megabytes > 1) or (ctas == SMS and threads == 32 and megabytes > 1):
                    continue
                if COUNTED and not (ctas == SMS and threads == 256):
                    continue
                iters = 20 if slow else 64
                mask = megabytes * (1 << 18) - 1
                args = [data, mask, iters, kind, CYCLES, SINK]
                run("atomics", ctas, threads, args, kind=name, megabytes=megabytes, iters=iters)
                if not COUNTED:
                    warps = ctas * threads // 32
                    on_progress(
                        kind=name,
                        megabytes=megabytes,
                        warps=warps,
                        cycles_per_access=float(CYCLES[:warps].double().mean()) / iters,
                    )


def rows():
    a, b = (torch.zeros(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(2))
    for bytes_ in (32, 64, 128, 256, 1024):
        for pitch in (bytes_, 256, 1024, 8192):
            if pitch < bytes_:
                continue
            count = min((1 << 30) // pitch, (1 << 28) // bytes_)
            for reads, writes in ((1, 0), (0, 1), (1, 1)):
                if COUNTED and not (pitch == 1024 and bytes_ in (64, 128)):
                    continue
                args = [a, b, count, bytes_, pitch, reads, writes, SINK]
                run(
                    "rows",
                    8 * SMS,
                    256,
                    args,
                    bytes=bytes_,
                    pitch=pitch,
                    reads=reads,
                    writes=writes,
                    moved=count * bytes_ * (reads + writes),
                )


def streams():
    a, b = (torch.zeros(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(2))
    for reads, writes in ((1, 0), (4, 1), (3, 1), (2, 1), (1, 1), (1, 2), (0, 1)):
        for place in ("apart", "in place"):
            for ctas in (2 * SMS, 8 * SMS):
                if (place == "in place" and reads != writes) or COUNTED:
                    continue
                blocks = (1 << 30) // (16384 * max(reads, writes, 1))
                args = [a, a if place == "in place" else b, blocks, reads, writes, SINK]
                run(
                    "streams",
                    ctas,
                    256,
                    args,
                    reads=reads,
                    writes=writes,
                    place=place,
                    moved=blocks * 16384 * (reads + writes),
                )


def spills():
    for words in (64, 128, 192, 256, 384, 512, 768, 1024):
        for threads, ctas_per_sm in ((128, 1), (128, 2), (256, 1), (512, 1)):
            stack = words * 4 * threads * ctas_per_sm * SMS / 1e6
            if stack > 160:
                continue
            for waves, iters in ((1, 16), (8, 1)):
                run(
                    f"spill_{words}",
                    SMS * ctas_per_sm * waves,
                    threads,
                    [iters, 0, SINK],
                    words=words,
                    each=ctas_per_sm,
                    waves=waves,
                    iters=iters,
                    resident_stack_megabytes=stack,
                    stored_megabytes=stack * waves * iters,
                )


for part in (atomics, rows, streams, spills):
    try:
        part()
    except Exception as error:  # one part that fails leaves the others
        on_progress(failed=part.__name__, error=str(error)[:300])
    torch.cuda.empty_cache()
