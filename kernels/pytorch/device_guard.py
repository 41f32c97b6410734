"""C++ finds a GPU where there is none: c10's guard of the CUDA device, and the hooks of autograd's engine.

Both are objects of C++ whose first field leads to a table of functions. Theirs are replaced by copies in which some
functions do nothing, or name the device. The places of functions are read off the headers that torch ships, and are
checked against what they answer. So a build for CPUs and a CUDA build without a GPU are treated alike.
"""

import ctypes
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ..capture.user_function import Unusable

KINDS = 21
"""Kinds of devices that c10 keeps guards of: its table has not changed its size since torch 2.0."""
DEVICE = ctypes.c_uint16
"""A device as functions return it: kind in the low byte, index in the high one."""
REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
HOOKS = "_ZN2at6detail12getCUDAHooksEv"
ROOT = Path(torch.__file__).parent


@contextmanager
def device_in_cpp() -> Iterator[None]:
    """Have C++ find one CUDA device that does nothing. Raises: Unusable: this torch is laid out otherwise; one line."""
    kinds = torch._C._autograd.DeviceType
    cpu, cuda, meta = (int(getattr(kinds, name)) for name in ("CPU", "CUDA", "Meta"))
    try:
        table = (ctypes.c_void_p * KINDS).in_dll(_library("c10"), REGISTRY)
        hooks_of = getattr(_library("torch_cpu"), HOOKS)
    except (OSError, ValueError, AttributeError):
        raise lacking("c10::impl::device_guard_impl_registry or at::detail::getCUDAHooks") from None
    if max(cpu, cuda, meta) >= KINDS or not (table[cpu] and table[meta]):
        raise lacking("a table of device guards as it is known (CPU, CUDA, meta)")
    hooks_of.restype = ctypes.c_void_p
    hooks = ctypes.c_void_p.from_address(hooks_of())
    guard_before, functions_before = table[cuda], hooks.value
    guard, hooked = _guard_like(table[meta] or 0, meta, cuda), _hooks_like(functions_before or 0)
    table[cuda], hooks.value = ctypes.addressof(guard), ctypes.addressof(hooked)
    try:
        accelerator = torch.accelerator.current_accelerator()
        if accelerator is None or accelerator.type != "cuda":
            raise lacking("hooks of accelerators as they are known (isBuilt)")
        yield
    finally:
        table[cuda], hooks.value = guard_before, functions_before


def lacking(hook: str) -> Unusable:
    """That this torch lacks a hook, in one line."""
    return Unusable(f"torch {torch.__version__} lacks {hook}, which recording without a GPU needs: try torch 2.13")


def virtual_functions(header: str, name: str) -> list[str]:
    """Names of the functions of a class of C++, by their places in its table; a destructor has two.

    Args:
        header: path below torch's headers; name: of the class.
    """
    try:
        text = (ROOT / "include" / header).read_text(encoding="utf-8")
    except OSError:
        raise lacking(f"its header {header}") from None
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    begin = re.search(rf"(?:struct|class)\s+(?:\w+\s+)?{name}\b[^;{{]*{{", text)
    body = text[begin.end() :].split("\n};")[0] if begin else ""
    names = re.findall(r"\bvirtual\s[^;{(]*?(~?\w+)\s*\(", body)
    return [part for found in names for part in ([found, found] if found.startswith("~") else [found])]


def _guard_like(guard: int, kind: int, new_kind: int) -> Any:
    """A guard that speaks of another kind of device. Args: guard: address of one; kind: of device that it speaks of."""
    names = virtual_functions("c10/core/impl/DeviceGuardImplInterface.h", "DeviceGuardImplInterface")
    type_of = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_void_p)
    device_of = ctypes.CFUNCTYPE(DEVICE, ctypes.c_void_p)
    of_device = ctypes.CFUNCTYPE(DEVICE, ctypes.c_void_p, DEVICE)
    functions = _functions(ctypes.c_void_p.from_address(guard).value or 0, names)
    try:
        answers = type_of(functions[names.index("type")])(guard), device_of(functions[names.index("getDevice")])(guard)
        if answers[0] != kind or answers[1] & 0xFF != kind:
            raise ValueError
        table = _replaced(
            functions,
            names,
            {
                "type": type_of(lambda _: new_kind),
                "getDevice": device_of(lambda _: new_kind),
                "exchangeDevice": of_device(lambda *_: new_kind),
                # A stream begins with its device. Its number may be any: the engine has streams wait for each other.
                "getStream": of_device(lambda *_: new_kind),
                "record": ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(lambda *_: None),
                "block": ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(lambda *_: None),
            },
        )
    except ValueError:
        raise lacking("device guards as they are known (type, getDevice, getStream, record, block)") from None
    made = ctypes.c_void_p(ctypes.addressof(table))
    made.kept = table  # type: ignore[attr-defined]  # C++ has its address alone
    return made


def _hooks_like(functions: int) -> Any:
    """A table of hooks in which CUDA is built in, and its device is ready. Args: functions: address of another one."""
    names = virtual_functions("ATen/detail/AcceleratorHooksInterface.h", "AcceleratorHooksInterface")
    yes = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(lambda _: True)
    try:
        # Classes below this one have more functions.
        return _replaced(
            _functions(functions, names * 4), names, dict.fromkeys(("isBuilt", "isAvailable", "hasPrimaryContext"), yes)
        )
    except ValueError:
        raise lacking("hooks of accelerators as they are known (isBuilt, isAvailable, hasPrimaryContext)") from None


def _functions(address: int, names: list[str]) -> list[int]:
    return [function or 0 for function in (ctypes.c_void_p * len(names)).from_address(address)]


def _replaced(functions: list[int], names: list[str], answers: Mapping[str, Any]) -> Any:
    """A table of functions with others at some places. Raises: ValueError: there is no such place."""
    table = (ctypes.c_void_p * len(functions))(*functions)
    for name, answer in answers.items():
        table[names.index(name)] = ctypes.cast(answer, ctypes.c_void_p).value
    table.kept = answers  # type: ignore[attr-defined]
    return table


def _library(name: str) -> ctypes.CDLL:
    return ctypes.CDLL(str(ROOT / "lib" / f"lib{name}.so"))
