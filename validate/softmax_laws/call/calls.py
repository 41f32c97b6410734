"""One call of an implementation: fresh arrays in, fp64 arrays out, and a `Violation` for whatever goes wrong inside."""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..declare.declaration import Declaration
from ..declare.formats import FORMATS, NAMES, NUMPY_DTYPES, Array

LOG_2 = float(np.log(2.0))
LONGEST_TEXT = 300
POISON = ("CUDA error", "Triton Error [CUDA]")
"""What torch and Triton say when the GPU takes no more work from this process."""


class Violation(Exception):
    """A law does not hold; the text says where and by how much."""


class Poisoned(BaseException):
    """A call left the process unusable, as a fault on a GPU does; no Exception, so that nothing goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An implementation with its complete declaration. Args: causal_name: keyword for the mask; None: by position."""

    function: Callable[..., Any]
    declaration: Declaration
    causal_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What an implementation returned.

    Args:
        o: (H, M, C); lse: (H, M), natural logarithm, or None; lse_eps: of the format that it came in.
        gradients: name of an input -> gradient, where they were asked for.
    """

    o: Array
    lse: Array | None = None
    lse_eps: float = 0.0
    gradients: dict[str, Array] | None = None


def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Run a piece of the implementation. Raises: Violation: it raised; Poisoned: it broke the GPU for this process."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*arguments, **options)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = f"raised {type(error).__name__}: {' '.join(str(error).split())}"[:LONGEST_TEXT].rstrip(": ")
        if any(sign in text for sign in POISON):
            raise Poisoned(text) from None
        raise Violation(text) from None


def native(array: Array, declaration: Declaration, differentiable: bool = False) -> Any:
    """An fp64 array as the implementation takes it; it may do with it as it likes."""
    name = declaration.dtype or declaration.dtypes[0]
    if declaration.arrays == "numpy":
        return array.astype(NUMPY_DTYPES[name])
    import torch

    dtype = {"fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[name]
    # Values are numbers of the format, so going through fp32 rounds nothing.
    small = np.array(array, np.float64 if name == "fp64" else np.float32, order="C")
    place = "cuda" if declaration.arrays == "cuda" else "cpu"
    return torch.from_numpy(small).to(device=place, dtype=dtype).requires_grad_(differentiable)


def plain(value: Any, shape: tuple[int, ...], what: str) -> Array:
    """What the implementation returned, as an fp64 array. Raises: Violation: it is none, or of another shape."""
    try:
        if hasattr(value, "detach"):
            # Waiting for a GPU is where a fault in its kernel shows.
            value = call(lambda: value.detach().double().cpu().numpy())
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise Violation(f"returned {what} as a {type(value).__name__}: must be an array") from None
    if array.shape != shape:
        raise Violation(f"returned {what} of shape {array.shape}: must be {shape}")
    return array


def takes_causal(function: Callable[..., Any]) -> tuple[bool, str | None]:
    """Whether a function takes a causal mask, and by which keyword; None: as its fourth argument."""
    parameters = inspect.signature(function).parameters.values()
    for name in ("causal", "is_causal"):
        if any(parameter.name == name and parameter.kind != parameter.POSITIONAL_ONLY for parameter in parameters):
            return True, name
    positional = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return sum(parameter.default is parameter.empty for parameter in positional) == 4, None


def output_of(
    subject: Subject,
    returned: Any,
    shape: tuple[int, ...],
    given: dict[str, Any] | None = None,
    weight: Array | None = None,
) -> Output:
    """Results of one call, in the shape that it returned them.

    Args:
        returned: o, or a pair o, lse; shape: that o must have.
        given: inputs of the call by name; weight: of each output in a sum, whose gradient is wanted.
    """
    several = isinstance(returned, tuple | list)
    first = returned[0] if several and len(returned) else returned
    o, lse, eps, gradients = plain(first, shape, "an output"), None, 0.0, None
    base = subject.declaration.lse
    if base not in ("none", None):
        if not several or len(returned) < 2:
            raise Violation("returned no LSE beside its output, as it declares")
        lse = plain(returned[1], shape[:-1], "an LSE") * (LOG_2 if base == "log2" else 1.0)
        eps = FORMATS[NAMES.get(str(getattr(returned[1], "dtype", "")).removeprefix("torch."), "fp64")].eps
    if weight is not None and given is not None:
        call(lambda: (first.double() * _like(first, weight)).sum().backward())
        gradients = {
            name: plain(tensor.grad, tuple(tensor.shape), f"a gradient of {name}") for name, tensor in given.items()
        }
    return Output(o=o, lse=lse, lse_eps=eps, gradients=gradients)


def _like(tensor: Any, weight: Array) -> Any:
    import torch

    return torch.from_numpy(np.array(weight, order="C")).to(tensor.device)


def joined(parts: list[Output], shape: tuple[int, ...]) -> Output:
    """Results of calls for a row or a head each, or of a single call, in the shape (H, M, C)."""
    first = parts[0]
    lse = None if first.lse is None else np.stack([part.lse for part in parts if part.lse is not None])
    gradients = None
    if first.gradients is not None:
        every = [part.gradients for part in parts if part.gradients is not None]
        stacked = {name: np.stack([gradients_of_part[name] for gradients_of_part in every]) for name in first.gradients}
        gradients = {name: stack.reshape(-1, *stack.shape[-2:]) for name, stack in stacked.items()}
    return Output(
        o=np.stack([part.o for part in parts]).reshape(shape),
        lse=None if lse is None else lse.reshape(shape[:-1]),
        lse_eps=first.lse_eps,
        gradients=gradients,
    )
