# ruff: noqa: E501
"""How long a load of one small piece waits for device memory while others write, and what starts a CTA of many warps.

    python piece_latency.py > pieces.ndjson        (8 s on an H200; a JSON object a line)

A warp of each CTA (1, 4, 8 or 16 CTAs an SM) loads a piece of 32 B to 4 KiB at a random place of 8 GiB, waits for it,
stores as much to a stream of its own (`own`) or not (`none`), and goes on; every second CTA does nothing but store
(`others`). A line each: mean cycles from the load to its use, and what all load and write in a second. `places`:
pieces at a pitch of 4 KiB instead, as a scan over time has them.
Then, by the warps of a CTA and its registers: cycles from the last instruction of a CTA to the first of the next one on
the same SM, in the median.

CUDA kernels, compiled by torch's NVRTC: needs torch 2.9 or later and a GPU of compute capability 9.0.
"""

import json
import statistics

import torch

SOURCE = r"""
typedef unsigned int u32; typedef unsigned long long u64;
__device__ __forceinline__ u32 mix(u32 x) { x ^= x >> 16; x *= 0x85ebca6b; x ^= x >> 13; x *= 0xc2b2ae35; return x ^ x >> 16; }

// words: 16 B that a lane moves in turn, of `lanes` lanes; places: of the data; walk: in order instead of at random.
extern "C" __global__ void pieces(const char* from, char* to, u64 places, int pitch, int lanes, int words, int rounds, int writes, int walk, int pause, long long* waited, long long* took) {
  u32 cta = blockIdx.x, lane = threadIdx.x, seed = mix(cta * 2654435761u + 1), got = 0;
  bool loads = writes != 2 || cta % 2 == 0, stores = writes == 1 || (writes == 2 && !loads);
  char* out = to + (u64)cta * rounds * lanes * 16 * words;
  long long sum = 0, start = clock64();
  for (int round = 0; round < rounds; ++round) {
    u64 place = walk ? ((u64)cta + (u64)round * gridDim.x) % places : mix(seed + round) % places;
    const char* at = from + place * pitch + lane * 16;
    if (loads && lane < lanes) {
      long long begin = clock64();
      for (int w = 0; w < words; ++w) {
        u32 a, b, c, d;
        asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(at + (u64)w * lanes * 16));
        got += a;
      }
      asm volatile("" :: "r"(got) : "memory");
      if (got == 0xdeadbeef) sum += 1;
      sum += clock64() - begin;
    }
    if (stores && lane < lanes)
      for (int w = 0; w < words; ++w)
        asm volatile("st.global.v4.u32 [%0], {%1,%1,%1,%1};" :: "l"(out + ((u64)round * words + w) * lanes * 16 + lane * 16), "r"(round) : "memory");
    long long now = clock64();
    while (clock64() - now < pause) {}
  }
  if (lane == 0) { waited[cta] = loads ? sum : 0; took[cta] = clock64() - start; }
}

// Begin and end of each CTA by its SM's clock; every CTA works for a while.
extern "C" __global__ void ctas(int cycles, long long* begins, long long* ends, int* sms) {
  long long begin = clock64();
  __syncthreads();
  while (clock64() - begin < cycles) {}
  __syncthreads();
  if (threadIdx.x == 0) {
    int sm; asm("mov.u32 %0, %%smid;" : "=r"(sm));
    sms[blockIdx.x] = sm; begins[blockIdx.x] = begin; ends[blockIdx.x] = clock64();
  }
}
"""
SMS = torch.cuda.get_device_properties(0).multi_processor_count
PIECES, CTAS = (torch.cuda._compile_kernel(SOURCE, name) for name in ("pieces", "ctas"))
DATA = torch.zeros(1 << 33, dtype=torch.uint8, device="cuda")
TARGET = torch.zeros(1 << 32, dtype=torch.uint8, device="cuda")
WRITES = {"none": 0, "own": 1, "others": 2}


def timed(kernel, **launch):
    """Seconds of the second of two launches."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    kernel(**launch)
    begin.record()
    kernel(**launch)
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3


def pieces():
    for size in (32, 64, 128, 256, 512, 1024, 2048, 4096):
        lanes, words = min(32, size // 16), max(1, size // 512)
        for ctas_per_sm in (1, 4, 8, 16):
            for pause in (0, 1000):
                for writes, number in WRITES.items():
                    for walk in (0, 1):
                        count = SMS * ctas_per_sm
                        rounds = min(512, TARGET.numel() // count // size)
                        waited, took = (torch.zeros(count, dtype=torch.int64, device="cuda") for _ in range(2))
                        args = [
                            DATA,
                            TARGET,
                            DATA.numel() // 4096,
                            4096,
                            lanes,
                            words,
                            rounds,
                            number,
                            walk,
                            pause,
                            waited,
                            took,
                        ]
                        seconds = timed(PIECES, grid=(count, 1, 1), block=(32, 1, 1), args=args)
                        loading = waited[waited > 0].double()
                        what = {"bytes": size, "ctas_per_sm": ctas_per_sm, "pause_cycles": pause, "writes": writes}
                        moved = rounds * size
                        print(json.dumps(what | {
                            "places": "in order" if walk else "random",
                            "wait_cycles": float(loading.mean()) / rounds,
                            "loaded_bytes_per_s": len(loading) * moved / seconds,
                            "written_bytes_per_s": {"none": 0, "own": count, "others": count // 2}[writes] * moved / seconds,
                        }), flush=True)  # fmt: skip


def replacements():
    for warps in (1, 2, 4, 8, 16, 32):
        for smem in (0, 100 << 10):
            count = SMS * 40
            begins, ends = (torch.zeros(count, dtype=torch.int64, device="cuda") for _ in range(2))
            sms = torch.zeros(count, dtype=torch.int32, device="cuda")
            # As much shared memory as leaves room for one CTA alone, so that one follows the other.
            launch = {"grid": (count, 1, 1), "block": (32 * warps, 1, 1), "args": [5000, begins, ends, sms]}
            if smem:
                launch["shared_mem"] = smem + (28 << 10)
                CTAS.set_shared_memory_config(launch["shared_mem"])
            timed(CTAS, **launch)
            gaps = []
            for sm in range(SMS):
                of_sm = (sms == sm).nonzero().flatten()
                order = begins[of_sm].argsort()
                gaps += (begins[of_sm][order][1:] - ends[of_sm][order][:-1]).tolist()
            print(
                json.dumps({"warps": warps, "one_at_a_time": bool(smem), "gap_cycles": statistics.median(gaps)}),
                flush=True,
            )


if __name__ == "__main__":
    replacements()
    pieces()
