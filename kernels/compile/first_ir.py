"""Triton's first IR of a kernel, which holds all of the user's Python; kept on disk, as finding it is slow.

Source of the key: what `compile` of Triton 3.6 looks its own cache up by.
"""

import json
from hashlib import sha256
from inspect import signature
from typing import Any

from triton._C.libtriton import ir

from ...simulator.cache_folder import cache_folder
from .cache import read, write
from .made_by import triton_version


def first_ir(source: Any, target: Any, backend: Any, options: Any) -> str:
    """The IR as a text.

    Args:
        source: Triton's `ASTSource` or Gluon's; target, backend, options: as Triton has them.

    Raises:
        CompilationError, and what else Triton raises of source that it does not take.
    """
    path = cache_folder() / f"{_key(source, target, options)}.ir.json"
    kept = read(path)
    if kept is not None:
        return str(kept["ttir"])
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    implementation, modules = backend.get_codegen_implementation(options), backend.get_module_map()
    asked = (target, options, implementation, modules, context)
    takes_target = "target" in signature(source.make_ir).parameters  # not that of Triton 3.4
    text = str(source.make_ir(*asked[not takes_target :]))
    write(path, {"ttir": text})
    return text


def _key(source: Any, target: Any, options: Any) -> str:
    """What the IR depends on: source, with what it calls and the globals that it reads, specialisation, options."""
    function = source.fn
    digest = source.hash()  # also finds the globals
    read_now = sorted((name, repr(known.get(name))) for (name, _), (_, known) in function.used_global_vals.items())
    kinds = [[str(place), type(value).__name__, str(value)] for place, value in source.constants.items()]
    code = function.fn.__code__
    parts = [
        *(triton_version(), type(source).__name__, str(target), options.hash(), digest),
        *(code.co_filename, code.co_firstlineno, kinds, read_now),
    ]
    return sha256(json.dumps(parts).encode()).hexdigest()
