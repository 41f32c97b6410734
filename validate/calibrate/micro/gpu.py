"""A GPU for microbenchmarks: runs `micro/*.cu` through the CUDA driver, times by events.

Needs `cuda.bindings` (torch 2.10 and newer bring it) and a driver; nothing else, neither torch nor a CUDA toolkit.
What flows out is plain numbers; what they mean is decided elsewhere.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from types import TracebackType
from typing import Any

import numpy as np

from ....simulator.limits import OLDEST_CAPABILITY
from ...measure.process import driver_version
from ...measurement import Plain
from .compile import GpuFault, NoGpu, compile_cubin, micro_source, target_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts(Plain):
    """What the driver says of the GPU.

    Args:
        gpu: product name.
        capability: compute capability, e.g. `9.0`.
        sms: multiprocessors.
        driver, cuda, triton: versions; empty where unknown.
        l2_bytes, hbm_bytes, smem_per_cta_bytes: capacities [B].
        free_bytes: of device memory at the start [B].
        clock_hz: SM clock of a kernel that only spins, or in the mean round a group of microbenchmarks [Hz].
        date: ISO 8601, of the day.
    """

    gpu: str
    capability: str
    sms: int
    driver: str
    cuda: str
    triton: str
    l2_bytes: int
    hbm_bytes: int
    smem_per_cta_bytes: int
    free_bytes: int
    clock_hz: float
    date: str


def package_version(name: str) -> str:
    """Version of an installed package; empty where there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def attempt(record: dict[str, Any], name: str, action: Callable[[], Any]) -> None:
    """Put what a microbenchmark measures into a record; one that fails costs itself, and `failed` says why."""
    try:
        record[name] = action()
    except GpuFault as fault:
        record.setdefault("failed", {})[name] = str(fault)


class Gpu:
    """The first visible GPU, its primary context held until `close`.

    Raises:
        NoGpu: cuda.bindings, its libraries, a driver or a GPU new enough is missing.
    """

    def __init__(self) -> None:
        try:
            from cuda.bindings import driver, nvrtc
        except ImportError:
            raise NoGpu(
                "cuda.bindings is not installed: pip install cuda-bindings (torch 2.10 and newer bring it)"
            ) from None
        self._cuda: Any = driver
        self._nvrtc: Any = nvrtc
        try:
            self._do("cuInit", 0)
        except (RuntimeError, GpuFault) as error:
            raise NoGpu(f"no CUDA driver answers ({error}): install NVIDIA's driver, or run on a GPU") from None
        if not self._do("cuDeviceGetCount"):
            raise NoGpu("no CUDA GPU is visible: see CUDA_VISIBLE_DEVICES and nvidia-smi")
        self._device = self._do("cuDeviceGet", 0)
        major, minor = self._attribute("COMPUTE_CAPABILITY_MAJOR"), self._attribute("COMPUTE_CAPABILITY_MINOR")
        self.name = self._do("cuDeviceGetName", 256, self._device).split(b"\0")[0].decode()
        if (major, minor) < OLDEST_CAPABILITY:
            raise NoGpu(f"{self.name} has compute capability {major}.{minor}: 8.0 or newer is needed")
        self.capability = f"{major}.{minor}"
        self.sms: int = self._attribute("MULTIPROCESSOR_COUNT")
        self.l2_bytes: int = self._attribute("L2_CACHE_SIZE")
        self.smem_per_cta_bytes: int = self._attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        self._open()

    def _open(self) -> None:
        """A context with a stream of its own, and nothing loaded."""
        self._do("cuCtxSetCurrent", self._do("cuDevicePrimaryCtxRetain", self._device))
        self._stream = self._do("cuStreamCreate", 0)
        self._events = [self._do("cuEventCreate", 0) for _ in range(2)]
        self._modules: dict[str, Any] = {}
        self._functions: dict[tuple[str, str], Any] = {}
        self._buffers: dict[str, tuple[int, int]] = {}

    def revive(self) -> None:
        """Begin anew where a kernel has broken the context: after an illegal instruction no call succeeds any more.

        Raises:
            GpuFault: the driver gives no new context either.
        """
        try:
            self.wait()
        except GpuFault:
            self._do("cuDevicePrimaryCtxReset", self._device)
            self._open()

    def __enter__(self) -> "Gpu":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give everything back; of a broken context there is nothing to give."""
        with suppress(GpuFault):
            self.free()
        self._cuda.cuDevicePrimaryCtxRelease(self._device)

    def _attribute(self, name: str) -> int:
        kind = getattr(self._cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._do("cuDeviceGetAttribute", kind, self._device))

    def _do(self, call: str, *arguments: Any) -> Any:
        """Call the driver. Raises: GpuFault: it did not succeed."""
        error, *rest = getattr(self._cuda, call)(*arguments)
        if int(error) != 0:
            raise GpuFault(f"{call}: {getattr(error, 'name', error)}")
        return rest[0] if len(rest) == 1 else tuple(rest) or None

    def facts(self, date: str) -> Facts:
        """What the driver says, and the clock of an idle SM. Args: date: ISO 8601."""
        free, total = self._do("cuMemGetInfo")
        version = int(self._do("cuDriverGetVersion"))
        return Facts(
            gpu=self.name,
            capability=self.capability,
            sms=self.sms,
            driver=driver_version(),
            cuda=f"{version // 1000}.{version % 1000 // 10}",
            triton=package_version("triton"),
            l2_bytes=self.l2_bytes,
            hbm_bytes=int(total),
            smem_per_cta_bytes=self.smem_per_cta_bytes,
            free_bytes=int(free),
            clock_hz=self.spin_clock_hz(),
            date=date,
        )

    def free_bytes(self) -> int:
        """Device memory that is free now [B]."""
        return int(self._do("cuMemGetInfo")[0])

    def spin_clock_hz(self, warm_up_s: float = 0.2) -> float:
        """SM clock while one thread spins [Hz]. Args: warm_up_s: spin so long before, to leave the idle clock [s]."""
        out = self.buffer("clock", 16)
        for spin_s in (warm_up_s, 0.005):
            self.launch("launch", "clock_rate", 1, 1, [np.uint64(out), np.uint64(spin_s * 1e9)])
        cycles, spent = self.download(out, np.uint64, 2)
        return float(cycles) / float(spent) * 1e9

    def function(self, file: str, name: str) -> Any:
        """A kernel, compiled when its file is first used. Raises: GpuFault: it does not compile."""
        if (file, name) not in self._functions:
            if file not in self._modules:
                self._modules[file] = self._do("cuModuleLoadData", self.compile(file))
            function = self._do("cuModuleGetFunction", self._modules[file], name.encode())
            kinds = self._cuda.CUfunction_attribute
            fixed = self._do("cuFuncGetAttribute", kinds.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function)
            limit = kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._do("cuFuncSetAttribute", function, limit, self.smem_per_cta_bytes - int(fixed))
            self._functions[file, name] = function
        return self._functions[file, name]

    def compile(self, file: str) -> bytes:
        """The cubin of a file of microbenchmarks. Raises: GpuFault: it does not compile; NoGpu: no NVRTC is here."""
        return compile_cubin(self._nvrtc, micro_source(file), f"{file}.cu", target_of(self.capability))

    def buffer(self, name: str, size_bytes: int) -> int:
        """Address of a named buffer of zeros, kept for the next use where it is large enough."""
        address, size = self._buffers.get(name, (0, 0))
        if size < size_bytes:
            if address:
                self._do("cuMemFree", address)
            address = int(self._do("cuMemAlloc", size_bytes))
            self._buffers[name] = (address, size_bytes)
            self._do("cuMemsetD8", address, 0, size_bytes)
        return address

    def free(self) -> None:
        """Give all buffers back."""
        for address, _ in self._buffers.values():
            self._do("cuMemFree", address)
        self._buffers.clear()

    def upload(self, address: int, values: np.ndarray[Any, Any]) -> None:
        """Copy an array to the GPU."""
        data = np.ascontiguousarray(values)
        self._do("cuMemcpyHtoD", address, data.ctypes.data, data.nbytes)

    def download(self, address: int, dtype: Any, count: int) -> np.ndarray[Any, Any]:
        """Copy an array from the GPU, after all that was launched."""
        data = np.empty(count, dtype)
        self.wait()
        self._do("cuMemcpyDtoH", data.ctypes.data, address, data.nbytes)
        return data

    def wait(self) -> None:
        """Wait for all that was launched. Raises: GpuFault: a kernel failed."""
        self._do("cuStreamSynchronize", self._stream)

    def prepared(
        self, file: str, name: str, grid: int, block: int, arguments: Sequence[Any] = (), smem_bytes: int = 0
    ) -> Callable[[], None]:
        """A launch, its arguments packed once. Args: arguments: numpy scalars of the parameters' types."""
        function = self.function(file, name)
        values = [np.array(argument) for argument in arguments]
        pointers = np.array([value.ctypes.data for value in values], np.uint64)
        launch, stream, at = self._cuda.cuLaunchKernel, self._stream, pointers.ctypes.data if values else 0

        def run(_: Any = (values, pointers)) -> None:
            (error,) = launch(function, grid, 1, 1, block, 1, 1, smem_bytes, stream, at, 0)
            if int(error) != 0:
                raise GpuFault(f"cuLaunchKernel {name}: {getattr(error, 'name', error)}")

        return run

    def launch(
        self, file: str, name: str, grid: int, block: int, arguments: Sequence[Any] = (), smem_bytes: int = 0
    ) -> None:
        """Start a kernel."""
        self.prepared(file, name, grid, block, arguments, smem_bytes)()

    def seconds(self, action: Callable[[], None], repeats: int = 1) -> list[float]:
        """Time that the GPU takes for what `action` starts, by events, once per repeat [s]."""
        begin, end = self._events
        spent = []
        for _ in range(repeats):
            self._do("cuEventRecord", begin, self._stream)
            action()
            self._do("cuEventRecord", end, self._stream)
            self._do("cuEventSynchronize", end)
            spent.append(float(self._do("cuEventElapsedTime", begin, end)) * 1e-3)
        return spent

    def graph(self, action: Callable[[], None]) -> Callable[[], None]:
        """What `action` starts as a CUDA graph: a function that replays it."""
        mode = self._cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
        self._do("cuStreamBeginCapture", self._stream, mode)
        action()
        graph = self._do("cuStreamEndCapture", self._stream)
        executable = self._do("cuGraphInstantiate", graph, 0)
        return lambda: self._do("cuGraphLaunch", executable, self._stream)
