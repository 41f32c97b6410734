"""Launches of a Triton kernel without work, back to back: what every launch of a pipeline pays."""

from collections.abc import Callable

import torch

from ...timing.device_kernels import nothing_kernel


def launches_s(launches: int, repeats: int, ctas: int) -> dict[str, list[float]]:
    """Time of a number of launches, the median of which is sought: in a stream and in a replayed graph [s].

    In a stream it is the host that takes so long; in a graph it is the GPU.

    Args:
        ctas: of a launch, 128 threads each.
    """
    out = torch.zeros(1, device="cuda")

    def many() -> None:
        for _ in range(launches):
            nothing_kernel[(ctas,)](out, launches, num_warps=4)

    many()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        many()
    return {"stream": _seconds(many, repeats), "graph": _seconds(graph.replay, repeats)}


def _seconds(action: Callable[[], None], repeats: int) -> list[float]:
    """Time that the GPU takes for what `action` enqueues, once per repeat after one that does not count [s]."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    spent = []
    for _ in range(repeats + 1):
        begin.record()
        action()
        end.record()
        end.synchronize()
        spent.append(begin.elapsed_time(end) * 1e-3)
    return spent[1:]
