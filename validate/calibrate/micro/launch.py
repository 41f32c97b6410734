"""Launches and clocks, measured: from kernel to kernel, from CTA to CTA, and the SM clock under sustained load.

Every `measure_*` takes the GPU and returns a record, an object that JSON can hold; `derive` reads it.
"""

from functools import partial
from time import sleep
from typing import Any

import numpy as np

from .compile import GpuFault
from .gpu import Gpu, attempt
from .pipes import TILES_BYTES

Record = dict[str, Any]

LAUNCHES = 1000
REPEATS = 7
LOAD_LAUNCHES = 20
POWER_AFTER_S = 0.02
"""A launch of a load takes about 50 ms; its power is read while it runs [s]."""
LOAD_BYTES = TILES_BYTES + 65536
PRODUCTS_A_TURN = 64
LOADS = {
    "memory": (0, 0, 60_000),
    "tensor": (10_000, 0, 0),
    "tensor_most": (8_000, 1_000, 0),
    "tensor_half": (6_000, 4_000, 0),
    "mixed": (10_000, 0, 1_000_000),
    "mixed_most": (8_000, 1_000, 1_000_000),
    "mixed_half": (6_000, 4_000, 1_000_000),
}
"""Load -> turns of products, rest after each [ns], turns of reading at most."""


def measure_launch(gpu: Gpu) -> Record:
    """Kernels without work back to back, seconds for all; CTAs one after another.

    Returns:
        `launches`; `stream`, `graph`: seconds for so many of one CTA, launched by the driver in a stream, and replayed
        as a graph; `triton`: `stream` and `graph` of a Triton kernel with a CTA for each SM;
        `ctas`: CTAs of one launch -> its seconds;
        `turnover`: cycles from the end of a CTA to the begin of the next on the same SM.
    """
    nothing = gpu.prepared("launch", "nothing", 1, 32)

    def many() -> None:
        for _ in range(LAUNCHES):
            nothing()

    gpu.seconds(many, 2)
    record: Record = {"launches": LAUNCHES, "stream": gpu.seconds(many, REPEATS), "ctas": {}}
    record["graph"] = gpu.seconds(gpu.graph(many), REPEATS + 1)[1:]
    for waves in (1, 100, 1000):
        count = waves * gpu.sms
        record["ctas"][str(count)] = gpu.seconds(gpu.prepared("launch", "nothing", count, 128), REPEATS + 1)[1:]
    count, notes = 8 * gpu.sms, gpu.buffer("notes", 24 * 8 * gpu.sms)
    spin: list[Any] = [np.uint64(notes), np.int32(20_000)]
    for _ in range(2):
        gpu.launch("launch", "turnover", count, 128, spin, gpu.smem_per_cta_bytes - 4096)
    seen = gpu.download(notes, np.uint64, 3 * count).astype(np.int64).reshape(count, 3)
    gaps: list[int] = []
    for sm in np.unique(seen[:, 0]):
        mine = seen[seen[:, 0] == sm]
        mine = mine[np.argsort(mine[:, 1])]
        gaps += (mine[1:, 1] - mine[:-1, 2]).tolist()
    record["turnover"] = gaps
    attempt(record, "triton", partial(triton_launches, gpu.sms))
    return record


def triton_launches(sms: int) -> Record:
    """`stream`, `graph`: seconds for Triton launches. Raises: GpuFault: torch or triton is missing or has no GPU."""
    try:
        from .triton import launches_s

        return dict(launches_s(LAUNCHES, REPEATS, sms))
    except Exception as error:  # torch and triton have errors of every kind for what they lack
        raise GpuFault(f"Triton: {type(error).__name__}: {str(error).partition(chr(10))[0]}") from None


def measure_clock(gpu: Gpu) -> Record:
    """SM clock, tensor activity, HBM traffic and board power while a load goes on for about a second.

    Returns:
        Load -> one list a launch: SM clock [Hz], share of cycles with the tensor pipe busy, bytes read per second,
        power [W] (0 where NVML does not say).
    """
    record: Record = {}
    if gpu.capability != "9.0":
        return record
    size = 2 << 30
    while size > gpu.free_bytes() // 4:
        size //= 2
    data, sink, out = gpu.buffer("stream source", size), gpu.buffer("sink", 4096), gpu.buffer("loads", 24 * gpu.sms)
    power = power_meter()
    for name, (turns, pause, reads) in LOADS.items():
        arguments: list[Any] = [np.uint64(out), np.uint64(data), np.uint64(size // 16), np.uint64(sink)]
        arguments += [np.int32(turns), np.int32(pause), np.int32(reads)]
        launch = gpu.prepared("hopper", "load", gpu.sms, 512, arguments, LOAD_BYTES)
        record[name] = []
        for _ in range(LOAD_LAUNCHES):
            launch()
            sleep(POWER_AFTER_S)
            watts = power()
            cycles, nanoseconds, read = gpu.download(out, np.uint64, 3 * gpu.sms).astype(float).reshape(gpu.sms, 3).T
            busy = turns * PRODUCTS_A_TURN * 2 * 64 / np.median(cycles)
            traffic = float(np.sum(read)) * 32768 / np.median(nanoseconds) * 1e9
            record[name].append([float(np.median(cycles / nanoseconds)) * 1e9, float(busy), traffic, watts])
    gpu.free()
    return record


def power_meter() -> Any:
    """A function that reads the board's power [W]; it says 0 where NVML is not here."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)

        def instant() -> Any:
            return pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_POWER_INSTANT])[0]

        # The other figure is a mean over a second.
        if instant().nvmlReturn == 0:
            return lambda: instant().value.uiVal / 1e3
        pynvml.nvmlDeviceGetPowerUsage(handle)
    except Exception:  # pynvml has an error class for every code, and may be missing
        return lambda: 0.0
    return lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3
