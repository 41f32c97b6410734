"""CUDA graphs of torch.compile: whether there are any, and the copies of what they are given into memory of theirs.

Code that changes what it is given, in place, is run without a graph, but for parameters and what graphs have made.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch

from ..hooks import replace
from ..recorder import Recorder
from ..storages import tensors_in


class Graphs:
    """Follows code that torch.compile replays as CUDA graphs.

    `count`: of these; `without`: of code that changes what it is given. Args: recorder: of their copies.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.count = self.without = 0
        self._recorder = recorder
        self._made: set[int] = set()

    @property
    def texts(self) -> list[str]:
        """What is to be said of them, each in one line."""
        made = self.count + self.without
        if self.without:
            why = "inputs are changed in place; all launches count as if they waited for the host"
            return [f"torch.compile makes no CUDA graph of {self.without} of {made} graphs: {why}"]
        more = f" ({made} of them: what is between counts as if it was in one)" if made > 1 else ""
        return [f"torch.compile replays the step as a CUDA graph{more}: no launch waits for the host"] if made else []

    def hook(self, stack: ExitStack) -> None:
        """Stand in for what makes graphs, which takes a device. Raises: UserError: this torch lacks a hook."""
        replace(stack, "torch._inductor.compile_fx:cudagraphify", self._graphed)
        # torch asks it before it makes a graph; a build for CPUs has none.
        replace(stack, "torch._C:_cuda_cudaCachingAllocator_is_enabled", lambda: True, is_new=True)

    def _graphed(
        self,
        model: Callable[[list[Any]], Any],
        static_input_idxs: Sequence[int] = (),
        *,
        mutated_input_idxs: Sequence[int] = (),
        **_: Any,
    ) -> Callable[[list[Any]], Any]:
        stays = frozenset(static_input_idxs)
        counted = False

        def run(given: list[Any]) -> Any:
            nonlocal counted
            changes = any(place not in stays and self._is_outside(given[place]) for place in mutated_input_idxs)
            if not counted:
                counted = True
                self.count, self.without = self.count + (not changes), self.without + changes
            if changes:
                return model(given)
            moved = [place for place, value in enumerate(given) if place not in stays and self._is_outside(value)]
            if moved:
                copies = [torch.empty_like(given[place]) for place in moved]
                torch._foreach_copy_(copies, [given[place] for place in moved])
                for place, copy in zip(moved, copies, strict=True):
                    values = self._recorder.storages.values(given[place])
                    if values is not None:
                        self._recorder.storages.keep(copy, values)
                    given[place] = copy
            results = model(given)
            self._made.update(map(self._recorder.storages.number, filter(_on_device, tensors_in(results))))
            return results

        return run

    def _is_outside(self, value: Any) -> bool:
        """Whether a value is a tensor that no graph has made."""
        is_tensor = isinstance(value, torch.Tensor) and _on_device(value)
        return is_tensor and self._recorder.storages.number(value) not in self._made


def _on_device(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cuda"
