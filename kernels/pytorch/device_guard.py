"""C++ finds a GPU where there is none: c10's guard of the CUDA device, and the hooks of autograd's engine.

Both are objects of C++ whose first field leads to a table of functions. Theirs are replaced by copies in which some
functions are one of torch's own that returns 1: true, or the CUDA device of index 0 (which is kind 1), or nothing that
matters. The places of functions are read off the headers that torch ships, and checked against what they answer.
So a build for CPUs and a CUDA build without a GPU are treated alike.
"""

import ctypes
import mmap
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ...simulator.refusal import UserError

KINDS = 21
"""Kinds of devices that c10 keeps guards of: its table has not changed its size since torch 2.0."""
GUARD = "c10/core/impl/DeviceGuardImplInterface.h", "DeviceGuardImplInterface"
ACCELERATOR = "ATen/detail/AcceleratorHooksInterface.h", "AcceleratorHooksInterface"
ONES = ("type", "getDevice", "exchangeDevice", "record", "block")
"""Functions of a guard that name the device, or would refuse."""
STREAMS = ("getStream", "exchangeStream")
"""Functions of a guard that return a stream: a device, and in a second register a number."""
DEFAULT_STREAM = {"x86_64": "b801000000 31d2 c3"}  # mov eax, 1; xor edx, edx; ret
"""Machine code that returns the default stream of the CUDA device 0. Were its number not always the same, autograd
would have streams wait for each other by events that do not exist."""
TRUE = ("isBuilt", "isAvailable", "hasPrimaryContext")
REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
HOOKS = "_ZN2at6detail12getCUDAHooksEv"
KEPT: list[Any] = []
"""Tables that C++ has the addresses of."""
ROOT = Path(torch.__file__).parent


@contextmanager
def device_in_cpp() -> Iterator[None]:
    """Have C++ find one CUDA device that does nothing. Raises: UserError: this torch is laid out otherwise."""
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
    before = table[cuda], hooks.value
    table[cuda], hooks.value = cpp_tables(table[meta] or 0, hooks.value or 0, cuda, meta)
    try:
        accelerator = torch.accelerator.current_accelerator()
        if accelerator is None or accelerator.type != "cuda":
            raise lacking("hooks of accelerators as they are known (isBuilt)")
        yield
    finally:
        table[cuda], hooks.value = before


def lacking(hook: str) -> UserError:
    """That this torch lacks a hook, in one line."""
    return UserError(f"torch {torch.__version__} lacks {hook}, which recording without a GPU needs: try torch 2.13")


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
    return [part for name in names for part in ([name, name] if name.startswith("~") else [name])]


@cache
def cpp_tables(meta_guard: int, hooks: int, cuda: int, meta: int) -> tuple[int, int]:
    """Addresses of a guard of CUDA's, and of a table of hooks with CUDA built in; never freed: threads may hold them.

    Args:
        meta_guard: address of the guard of `meta`; hooks: of a table of hooks; cuda, meta: kinds of devices.
    """
    guard_names, hook_names = virtual_functions(*GUARD), virtual_functions(*ACCELERATOR)
    if not {*ONES, *STREAMS, "deviceCount"} <= {*guard_names} or not {*TRUE} <= {*hook_names}:
        raise lacking(f"functions as they are known ({', '.join((*ONES, *STREAMS, *TRUE))})")
    functions = _functions(ctypes.c_void_p.from_address(meta_guard).value or 0, len(guard_names))
    returns_one = functions[guard_names.index("deviceCount")]
    answering = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)
    answers = [answering(functions[guard_names.index(name)])(meta_guard) & 0xFF for name in ("type", "getDevice")]
    if answers != [meta, meta] or answering(returns_one)(meta_guard) != cuda:
        raise lacking("device guards as they are known (type, getDevice, deviceCount)")
    for name in ONES:
        functions[guard_names.index(name)] = returns_one
    for name in STREAMS:
        functions[guard_names.index(name)] = _default_stream() or returns_one
    # Classes below that of the header have more functions than it.
    hooked = _functions(hooks, 4 * len(hook_names))
    for name in TRUE:
        hooked[hook_names.index(name)] = returns_one
    guard = ctypes.c_void_p(ctypes.addressof(functions))
    KEPT.extend((functions, hooked, guard))
    return ctypes.addressof(guard), ctypes.addressof(hooked)


def _default_stream() -> int:
    """Address of a function that returns the default stream; 0: this machine runs no code that is written here."""
    if platform.machine() not in DEFAULT_STREAM:
        return 0
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return 0
    page.write(bytes.fromhex(DEFAULT_STREAM[platform.machine()]))
    KEPT.append(page)
    return ctypes.addressof(ctypes.c_char.from_buffer(page))


def _functions(address: int, count: int) -> Any:
    """A copy of a table of functions."""
    return (ctypes.c_void_p * count).from_buffer_copy((ctypes.c_void_p * count).from_address(address))


def _library(name: str) -> ctypes.CDLL:
    return ctypes.CDLL(str(ROOT / "lib" / f"lib{name}.so"))
