"""A driver of Triton that compiles for Hopper on a machine without a GPU."""

from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.driver import CudaDriver


class Hopper(CudaDriver):  # type: ignore[misc]
    """Compiles for sm_90 where there is no GPU."""

    def __init__(self) -> None:
        pass

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    @staticmethod
    def is_active() -> bool:
        return True
