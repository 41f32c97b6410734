"""Kernels of cuTile (`cuda.tile`), compiled by tileiras for the target, and what they are launched with.

Source: `cuda/tile/jax/_jax.py` of cuda-tile 1.7.0: how signatures follow from arguments. An array is passed as its
address, shape and strides [elements], in 4 bytes each or, by its annotation, 8; numbers in 4.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch

from ...simulator.refusal import UserError
from .catcher import Catcher, Parameter

DIVISOR = 16
"""Of sizes, of strides and of addresses, the latter two in bytes, that the compiler is told of."""


@contextmanager
def caught(catcher: Catcher) -> Iterator[None]:
    """Have launches caught."""
    from cuda import tile

    def launch(stream: Any, grid: Sequence[int], kernel: Any, args: Sequence[Any], *_: Any) -> None:
        function = kernel._annotated_function
        pairs = list(zip(function.pysig.parameters, function.parameter_annotations, args, strict=True))
        parameters = [part for name, note, value in pairs for part in _flat(name, note, value)]
        compiled = _compiled(catcher, kernel, [_constraint(name, note, value) for name, note, value in pairs])
        catcher.catch(function.pyfunc.__name__, compiled, (grid, ()), parameters)

    with patch.object(tile, "launch", launch):
        yield


def _compiled(catcher: Catcher, kernel: Any, constraints: list[Any]) -> tuple[bytes, str]:
    """Cubin, and the kernel's name there."""
    from cuda.tile._compile import compile_tile, format_sm_arch
    from cuda.tile.compilation import CallingConvention, KernelSignature

    key = kernel, repr(constraints)
    if key not in catcher.compiled:
        sized = any(
            extent is not None for constraint in constraints for extent in getattr(constraint, "shape_constant", ())
        )
        convention = CallingConvention.cutile_python_v2() if sized else CallingConvention.cutile_python_v1()
        function = kernel._annotated_function
        signature = KernelSignature(constraints, convention).with_mangled_symbol(function.pyfunc.__name__)
        target = format_sm_arch(*catcher.capability)
        made = compile_tile(function, (signature,), target, kernel._compiler_options)
        catcher.compiled[key] = made.cubin, made.kernel_signatures[0].symbol
    return catcher.compiled[key]


def _is_wide(note: Any) -> bool:
    """Whether a parameter is annotated to have indices, or to be a number, of 64 bits."""
    kinds = [getattr(note.array, "index_dtype", None), getattr(note.scalar, "dtype", None)]
    return any("int64" in str(kind) for kind in kinds)


def _constraint(name: str, note: Any, value: Any) -> Any:
    """What the compiler is told of an argument. Raises: UserError: it is of a type that is not recorded."""
    from cuda import tile
    from cuda.tile._ir.typing_support import to_dtype
    from cuda.tile.compilation import ArrayConstraint, ConstantConstraint, ScalarConstraint

    if getattr(note, "constant", False):
        return ConstantConstraint(value)
    if isinstance(value, bool | int):
        return ScalarConstraint(tile.int64 if _is_wide(note) else tile.int32)
    if isinstance(value, float):
        return ScalarConstraint(tile.float32)
    if not isinstance(value, torch.Tensor):
        raise UserError(f"argument {name}: values of type {type(value).__name__} are not recorded")
    step = max(1, DIVISOR // value.element_size())
    return ArrayConstraint(
        to_dtype(value.dtype),
        value.dim(),
        index_dtype=tile.int64 if _is_wide(note) else tile.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[1 if stride == 1 else None for stride in value.stride()],
        shape_constant=[1 if extent == 1 else None for extent in value.shape],
        stride_divisible_by=[step if stride % step == 0 else 1 for stride in value.stride()],
        shape_divisible_by=[DIVISOR if extent % DIVISOR == 0 else 1 for extent in value.shape],
        base_addr_divisible_by=DIVISOR if value.storage_offset() * value.element_size() % DIVISOR == 0 else 1,
    )


def _flat(name: str, note: Any, value: Any) -> list[Parameter]:
    """Parameters of the machine code that an argument becomes."""
    if getattr(note, "constant", False):
        return []
    kind = "int64" if _is_wide(note) else "int32"
    if not isinstance(value, torch.Tensor):
        return [(name, f"fp32:{value}" if isinstance(value, float) else f"{kind}:{int(value)}")]
    return [
        (name, value),
        *((f"{name}.shape[{axis}]", f"{kind}:{extent}") for axis, extent in enumerate(value.shape)),
        *((f"{name}.strides[{axis}]", f"{kind}:{stride}") for axis, stride in enumerate(value.stride())),
    ]
