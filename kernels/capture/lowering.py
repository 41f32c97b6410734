"""From a recorded launch to what a compiler process needs: Triton's first IR, which holds all of the user's Python.

Binding, specialisation and the walk over the kernel's source are Triton's own, done here, where the function lives;
all that follows (`compile.ttir`) sees text alone, so that no other process has to find the user's code again.

Source: `JITFunction.run` and `compile` of Triton 3.6, whose steps these are.
"""

import inspect
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from ctypes import string_at
from dataclasses import replace
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITFunction, create_function_from_signature

from ...simulator.emulator.storage import MOST_VALUES_BYTES, STORAGE_SHIFT, Storage
from ...simulator.limits import MAX_CTA_THREADS, WARP_THREADS
from ...simulator.refusal import Refused, UserError
from ..compile.call import KernelLaunch, RefusedCall
from ..compile.first_ir import first_ir
from ..compile.ttir import line_of
from ..given.arguments import Tensor
from ..given.launch import Launch, call_of
from .recorded import WHOLE, RecordedLaunch, RecordedTensor, leaves
from .stores import stored_parameters

POINTERS = (torch.int64, torch.uint64)
"""Types of tables of pointers."""
NOT_FOR_THE_COMPILER = frozenset({"warmup", "grid"})
DEFAULT_TAKEN = "TRITON_DEFAULT_FP_FUSION is unset"
"""How Triton 3.9 begins to warn of its default, which a launch on the GPU would take, too."""
GATHERS = re.compile(r"tt\.descriptor_(gather|scatter)\b.*loc\((#loc\d*)\)")
GATHER_CAPABILITY = 100
"""PTX ISA 8.8, `cp.async.bulk.tensor`: `.tile::gather4` and `.tile::scatter4` need sm_100 or newer."""


def lower(capture: RecordedLaunch, capability: int) -> KernelLaunch:
    """Bind and specialise a launch as the JIT would on its GPU, and have Triton write down its IR.

    Args:
        capability: of the GPU, e.g. 90.

    Raises:
        Refused: Triton refuses the kernel, or it is of a kind that is not followed.
    """
    if capture.refused:
        raise Refused(capture.refused)
    function = capture.function
    target = GPUTarget("cuda", capability, WARP_THREADS)
    backend = make_backend(target)
    given = passed(capture)
    options = {name: value for name, value in capture.options.items() if name not in NOT_FOR_THE_COMPILER}
    try:
        bind = create_function_from_signature(function.signature, function.params, backend)
        bound, specialization, extra = bind(**{**options, **given})
        parsed, signature, constants, attributes = _packed(function, backend, options, bound, specialization, extra)
        source = _source_kind(function)(function, signature, constants, attributes)
        text = first_ir(source, target, backend, parsed)
    except CompilationError as error:
        raise Refused(f"kernel {capture.name}: Triton refuses {_refused(error, function)}") from None
    except (KeyError, TypeError, ValueError, AssertionError, NotImplementedError) as error:
        raise Refused(f"kernel {capture.name}: {type(error).__name__}: {_one_line(str(error))}") from None
    if parsed.num_warps * WARP_THREADS > MAX_CTA_THREADS:
        raise Refused(
            f"kernel {capture.name}: num_warps = {parsed.num_warps}: a CTA has at most {MAX_CTA_THREADS} threads, "
            f"{MAX_CTA_THREADS // WARP_THREADS} warps"
        )
    if parsed.num_ctas != 1:
        raise Refused(f"kernel {capture.name}: num_ctas = {parsed.num_ctas}: clusters are not modelled")
    if reason := refusal_of(capture.name, text, capability):
        raise Refused(reason)
    signature = dict(leaf for pair in signature.items() for leaf in leaves(*pair))
    return KernelLaunch(
        name=capture.name,
        file=str(inspect.getsourcefile(function.fn) or ""),
        line=function.fn.__code__.co_firstlineno,
        grid=capture.grid,
        num_warps=parsed.num_warps,
        num_stages=parsed.num_stages,
        num_ctas=parsed.num_ctas,
        job={
            "name": function.__name__,
            "ttir": text,
            "gluon": _is_gluon(function),
            "signature": list(signature.items()),
            "capability": capability,
            "options": {name: value for name, value in options.items() if isinstance(value, int | float | str | bool)},
        },
        arguments=_run_time(capture, signature),
        storages=_storages(capture),
        tuned=capture.tuned,
        configuration=configuration_of(capture),
        cooperative=bool(capture.options.get("launch_cooperative_grid")),
    )


def _packed(function: Any, backend: Any, options: Any, bound: Any, specialization: Any, extra: Any) -> Any:
    """Options, signature, constants and attributes of a bound launch.

    Source: Triton 3.5 and newer have a function for it; `JITFunction.run` of 3.4 does so in its midst.
    """
    if hasattr(function, "_pack_args"):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=DEFAULT_TAKEN)
            return function._pack_args(backend, options, bound, specialization, extra)
    from triton._utils import find_paths_if, get_iterable_path

    parsed = backend.parse_options(options)
    names, kinds = [parameter.name for parameter in function.params], [kind for kind, _ in specialization]
    if strange := [name for name in options if name not in parsed.__dict__ and name not in names]:
        raise KeyError(f"Keyword argument {strange[0]} was specified but unrecognised")
    values, marks = list(bound.values()), [mark for _, mark in specialization]
    constants = {
        path: get_iterable_path(values, path) for path in find_paths_if(kinds, lambda _, kind: kind == "constexpr")
    }
    marked = find_paths_if(marks, lambda _, mark: isinstance(mark, str))
    attributes = {path: backend.parse_attr(get_iterable_path(marks, path)) for path in marked}
    return parsed, dict(zip(names, kinds, strict=False)), constants, attributes


def lower_all(
    launches: Sequence[RecordedLaunch | Launch], capability: int, numbers: Mapping[str, int]
) -> list[KernelLaunch | RefusedCall]:
    """Launches of all front ends, in order. Args: capability: of the GPU; numbers: of storages, as of `call_of`."""
    tensors: dict[str, Tensor] = {}
    calls: list[KernelLaunch | RefusedCall] = []
    for launch in launches:
        if isinstance(launch, RecordedLaunch):
            calls.append(lower_or_refuse(launch, capability))
            continue
        try:
            calls.append(call_of(launch, capability, tensors, numbers))
        except UserError as error:
            calls.append(RefusedCall(name=launch.title or launch.kernel, grid=(1, 1, 1), reason=str(error)))
    return calls


def lower_or_refuse(capture: RecordedLaunch, capability: int) -> KernelLaunch | RefusedCall:
    """The same; a launch that Triton refuses, or that is not followed, becomes its reason."""
    try:
        return lower(capture, capability)
    except Refused as error:
        return RefusedCall(
            name=capture.name,
            grid=capture.grid,
            reason=str(error),
            tuned=capture.tuned,
            configuration=configuration_of(capture),
        )


def configuration_of(capture: RecordedLaunch) -> dict[str, Any]:
    """The configuration in plain values."""
    return {
        name: value if isinstance(value, bool | int | float | str) else str(value)
        for name, value in capture.configuration.items()
    }


def _is_gluon(function: Any) -> bool:
    """Whether a kernel is written in Gluon, whose first IR holds layouts already."""
    return bool(function.is_gluon())


def _source_kind(function: Any) -> type[ASTSource]:
    """What walks over a kernel's source: Gluon brings its own."""
    if not _is_gluon(function):
        return ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource

    return GluonASTSource


def passed(capture: RecordedLaunch) -> dict[str, Any]:
    """Arguments as Triton's binder takes them: stand-ins in the place of tensors, also of those in tuples."""

    def given(name: str, value: Any) -> Any:
        if name in capture.tensors:
            return stand_in(capture, name)
        if not isinstance(value, tuple):
            return value
        items = [given(f"{name}[{place}]", item) for place, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)

    names = {**capture.arguments, **capture.tensors}.keys() & {*capture.function.arg_names}
    return {name: given(name, capture.arguments.get(name)) for name in names}


def stand_in(capture: RecordedLaunch, name: str) -> Any:
    """What tells the compiler of a tensor: element type, and how far its address is aligned."""
    tensor = capture.tensors[name]
    pointer = _Pointer(tensor)
    if name not in capture.blocks:
        return pointer
    return replace(capture.descriptors[name], base=pointer, shape=list(tensor.shape), strides=list(tensor.strides))


class _Pointer:
    """A tensor as the binder of Triton sees it."""

    def __init__(self, tensor: RecordedTensor) -> None:
        self.dtype = tensor.dtype
        self.shape = tensor.shape
        self._tensor = tensor

    def data_ptr(self) -> int:
        """Its address."""
        return address_of(self._tensor)

    def ptr_range(self) -> int:
        """Bytes from there to the end of its storage [B]."""
        return self._tensor.storage_bytes - self._tensor.offset_bytes

    def stride(self) -> tuple[int, ...]:
        """As of a torch tensor."""
        return self._tensor.strides


def address_of(tensor: RecordedTensor) -> int:
    """Where a tensor begins, in the address space of `emulator.storage`."""
    return (tensor.storage + 1 << STORAGE_SHIFT) + tensor.offset_bytes


def _run_time(capture: RecordedLaunch, signature: Mapping[str, Any]) -> dict[str, int | float]:
    """Values of what the kernel is passed when it runs; behind a descriptor, of its shape and strides."""
    values: dict[str, int | float] = {}
    for name, kind in signature.items():
        if kind == "constexpr":
            continue
        if name in capture.tensors:
            tensor = capture.tensors[name]
            values[name] = address_of(tensor)
            if name in capture.blocks:
                values |= {f"{name}.shape[{axis}]": size for axis, size in enumerate(tensor.shape)}
                values |= {f"{name}.stride[{axis}]": size for axis, size in enumerate(tensor.strides)}
                descriptor = capture.descriptors[name]
                values[f"{name}.padding"] = int(getattr(descriptor, "padding", "zero") == "nan")
                values[f"{name}.round_f32_to_tf32"] = int(getattr(descriptor, "round_f32_to_tf32", False))
        elif isinstance(capture.arguments[name], int | float):
            values[name] = capture.arguments[name]
    return values


def _storages(capture: RecordedLaunch) -> tuple[Storage, ...]:
    storages: dict[int, Storage] = {}
    parameters = stored_parameters(capture.function)
    stored = {tensor.storage for name, tensor in capture.tensors.items() if name.partition("[")[0] in parameters}
    for name, tensor in capture.tensors.items():
        known = storages.get(tensor.storage)
        if known is None or known.values is None:
            number, size, whole = tensor.storage, tensor.storage_bytes, tensor.dtype in WHOLE
            values = _values(tensor)
            storages[number] = Storage(
                number=number,
                size_bytes=size,
                name=known.name if known else name,
                whole=whole,
                values=values,
                # Floats that the kernel itself writes are results: what they were before decides nothing.
                fill=tensor.fill if values is None and (whole or number not in stored) else b"",
                origin=tensor.origin,
            )
    return (*storages.values(), *_pointed(capture, {*storages}))


def _pointed(capture: RecordedLaunch, passed: set[int]) -> Iterator[Storage]:
    """Storages that tables of pointers name, beside those that are passed. Args: passed: numbers of these."""
    for name, tensor in capture.tensors.items() if capture.pointed else ():
        if tensor.values is None or tensor.dtype not in POINTERS or tensor.storage_bytes > MOST_VALUES_BYTES:
            continue
        numbers = (tensor.values.reshape(-1).to(torch.int64) >> STORAGE_SHIFT) - 1
        for number in numbers.unique().tolist():
            if number in capture.pointed and number not in passed:
                passed.add(number)
                place = int((numbers == number).nonzero()[0])
                yield Storage(number=number, size_bytes=capture.pointed[number], name=f"{name}[{place}]")


def _values(tensor: RecordedTensor) -> bytes | None:
    """The bytes of a whole storage whose values are given, and may decide where kernels go."""
    if tensor.values is None or tensor.dtype not in WHOLE or tensor.storage_bytes > MOST_VALUES_BYTES:
        return None
    storage = tensor.values.untyped_storage()
    return string_at(storage.data_ptr(), storage.nbytes())  # without numpy, which may be missing


def _refused(error: CompilationError, function: Any) -> str:
    """The innermost line of source that Triton stopped at, why, and where that line is."""
    while isinstance(error.__cause__, CompilationError):
        error = error.__cause__
    number, source = getattr(error.node, "lineno", 0), (error.src or "").splitlines()
    line = f"`{source[number - 1].strip()}`: " if 0 < number <= len(source) else ""
    kind = f"{type(error.__cause__).__name__}: " if error.__cause__ else ""
    why = " ".join((error.error_message or "no reason given").split())[:300]
    return line + kind + why + (_place(number, error.src, function) if line else "")


def _place(number: int, source: str, function: Any) -> str:
    """File and line, e.g. ` (mine.py:7)`. Args: number: of a line of the source of a kernel, or of what it calls."""
    known = (function, *function.fn.__globals__.values())
    stopped = next((other for other in known if isinstance(other, JITFunction) and other.src == source), None)
    if stopped is None:
        return ""
    lines, begin = inspect.getsourcelines(stopped.fn)
    decorators = next((count for count, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    file = inspect.getsourcefile(stopped.fn) or ""
    return f" ({file.rpartition('/')[2]}:{begin + decorators + number - 1})"


def _one_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" ^")]
    return lines[-1][:300] if lines else "no reason given"


def refusal_of(name: str, ir: str, capability: int) -> str:
    """Why a kernel cannot be compiled for a target, in one line; empty where nothing is known against it.

    Args:
        name: of the kernel; ir: Triton's first IR as text; capability: of the target, e.g. 90.
    """
    match = GATHERS.search(ir)
    if match is None or capability >= GATHER_CAPABILITY:
        return ""
    return (
        f"kernel {name}: line {line_of(match[2], ir)}: {match[1]} through a tensor descriptor needs "
        f"sm_{GATHER_CAPABILITY} or newer, the target is sm_{capability}: take pointers"
    )
