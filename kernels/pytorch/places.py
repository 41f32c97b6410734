"""Where an operation comes from: the module that is at it, and the line of the user's code.

Code that runs as it is written tells by its frames; code that Inductor has written by the nodes of its graph.
"""

import re
import sys
import weakref
from bisect import bisect_right
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from .hooks import replace

OTHERS = ("torch", "triton", "tilesight", "contextlib", "importlib", "unittest", "functorch")
"""Packages whose lines are not the user's."""
HERE = str(Path(__file__).parent)
CALL = torch.nn.Module._call_impl.__code__
LINE = re.compile(r'File "([^"]+)", line (\d+)')
IN_PACKAGE = re.compile(r"[/\\](torch|triton|tilesight|functorch)[/\\]")
GATHERS = ("gather", "index_select", "scatter", "scatter_add")
INDEXES = ("index", "index_put", "_unsafe_index", "_unsafe_index_put")
CARRIES = ("_to_copy", "clone", "expand", "unsqueeze", "squeeze", "view", "reshape", "permute", "select", "slice")
"""Operations that hand on values of their first argument."""
ANY = sys.maxsize
"""Of what reads no values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an operation comes from.

    Args:
        module: path of the module; where: `file.py:17`; parts: names of operations that a compiler has joined.
        indexed: what whole numbers that these read must be below, for indices inside; 0: they index with no tensor.
    """

    module: str = ""
    where: str = ""
    parts: tuple[str, ...] = ()
    indexed: int = 0


class SourceLocations:
    """Knows where what runs now comes from. `roots`: outermost modules that ran."""

    def __init__(self) -> None:
        self.roots: list[torch.nn.Module] = []
        self._names: weakref.WeakKeyDictionary[Any, dict[int, str]] = weakref.WeakKeyDictionary()
        self._origins: dict[Any, list[Any]] = {}
        self._forward: dict[int, Place] = {}
        self._written: dict[str, list[tuple[int, Any]]] = {}

    def hook(self, stack: ExitStack) -> None:
        """Follow which lines Inductor writes for which nodes of its graph. Raises: UserError: torch lacks a hook."""

        def enter_context(scheduler: Any, node: Any) -> None:
            entered(scheduler, node)
            parts = [part.node for part in node.get_nodes() if part.node is not None]
            origins = dict.fromkeys(origin for part in parts for origin in part.get_origins())  # in order, each time
            if origins:
                order = {origin: index for index, origin in enumerate(next(iter(origins)).graph.nodes)}
                inside = sorted(origins, key=lambda origin: order.get(origin, -1))
                self._origins[inside[-1]] = inside

        def compile_lines(graph: Any, written: Any) -> Any:
            module = compiled(graph, written)
            self._written[module.__file__] = list(written.line_map)
            return module

        entered = replace(stack, "torch._inductor.scheduler:Scheduler.enter_context", enter_context)
        compiled = replace(stack, "torch._inductor.graph:GraphLowering._compile_to_module_lines", compile_lines)

    def here(self, backward: bool = False) -> Place:
        """Where what runs now comes from. Args: backward: the engine runs it: it comes from where its forward does."""
        place = self._of_frames()
        if not backward:
            self._forward.setdefault(torch.autograd._get_sequence_nr() - 1, place)
        elif not place.parts and (node := torch._C._current_autograd_node()) is not None:
            return self._forward.get(node._sequence_nr(), place)
        return place

    def _of_frames(self) -> Place:
        frame: FrameType | None = sys._getframe(1)
        where, modules = "", []
        while frame is not None:
            code = frame.f_code
            if code is CALL:
                modules.append(frame.f_locals["self"])
            elif code.co_filename in self._written:
                if (place := self._of_line(code.co_filename, frame.f_lineno)) is not None:
                    return place
            elif not where and _is_users(frame):
                where = f"{code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
            frame = frame.f_back
        return Place(module=self._path(modules), where=where)

    def in_recurrent_layer(self) -> bool:
        """Whether a layer of `torch.nn` that a GPU would run whole, in cuDNN, is at work."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            # No others' variables: a frame keeps what it was asked for, and would keep tensors alive.
            if frame.f_code is CALL and isinstance(frame.f_locals["self"], torch.nn.RNNBase):
                return True
            frame = frame.f_back
        return False

    def _path(self, modules: Sequence[torch.nn.Module]) -> str:
        """Path of the innermost module. Args: modules: that are running, from the innermost on."""
        if not modules:
            return ""
        inner, root = modules[0], modules[-1]
        if not any(id(inner) in names for names in self._names.values()):
            self.know(root)
        names = (names[id(module)] for module in modules for names in self._names.values() if id(module) in names)
        return _plain(next(names))

    def know(self, root: torch.nn.Module) -> None:
        """Name the modules below one, which has no name itself."""
        if root not in self._names:
            self.roots.append(root)
            self._names[root] = {id(module): name for name, module in root.named_modules()}

    def _of_line(self, file: str, line: int) -> Place | None:
        """Of a line that Inductor has written; None: of no node."""
        written = self._written[file]
        index = bisect_right([begin for begin, _ in written], line) - 1
        if index < 0:
            return None
        node = written[index][1]
        origins = self._origins.get(node, [node])
        parts = dict.fromkeys(map(_operation, origins))
        stacks = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
        modules = list(stacks.values())
        frames = LINE.findall(node.meta.get("stack_trace") or "")
        lines = [frame for frame in frames if not IN_PACKAGE.search(frame[0])]
        return Place(
            module=_plain(modules[-1][0]) if modules else "",
            where=f"{lines[-1][0].rpartition('/')[2]}:{lines[-1][1]}" if lines else "",
            parts=tuple(name for name in parts if name),
            indexed=values_below(origins),
        )


def _is_users(frame: FrameType) -> bool:
    if frame.f_code.co_filename.startswith(HERE):
        return False
    package = str(frame.f_globals.get("__name__", "")).split(".")[0]
    return package not in OTHERS and not frame.f_code.co_filename.startswith("<")


def _operation(node: Any) -> str:
    """Name of torch's operation that a node of a graph was, before it was taken apart."""
    function = node.meta.get("original_aten") or node.target
    schema = getattr(function, "_schema", None)
    return str(schema.name).rpartition("::")[2] if schema is not None else ""


def _plain(path: str) -> str:
    """`layers.0.mlp` of `L['self']._modules['layers'].0.mlp`, or of a path below a compiled module."""
    path = re.sub(r"^[LG]\[['\"](args['\"]\]\[\d+|\w+['\"])\]\.?", "", path)  # a decorator's function has `args`
    path = re.sub(r"\._modules\[['\"](\w+)['\"]\]|\[['\"]?(\w+)['\"]?\]", r".\1\2", path)
    return re.sub(r"(^|\.)_orig_mod(?=\.|$)", "", path).strip(".")


def values_below(nodes: Collection[Any]) -> int:
    """The bound of values that a kernel reads, so that all of its indices are inside; 0: it indexes with no tensor.

    Args:
        nodes: of the graph that the kernel computes.
    """
    bounds = (_most_read(index, size - 1, nodes) for node in nodes for index, size in _indices(node))
    return min((bound + 1 for bound in bounds if bound < ANY), default=0)


def _indices(node: Any) -> list[tuple[Any, int]]:
    """Tensors that an operation of a graph indexes with, each with the size of the dimension."""
    name, shape = _name(node), _shape(node.args[0]) if node.args else ()
    if not shape:
        return []
    if name == "embedding":
        return [(node.args[1], int(shape[0]))]
    if name in GATHERS:
        return [(node.args[2], int(shape[node.args[1]]))]
    if name in INDEXES:
        pairs = zip(node.args[1], shape, strict=False)
        return [(index, int(size)) for index, size in pairs if index is not None]
    return [(node.args[1], int(shape[-1]))] if name == "nll_loss_forward" else []


def _most_read(node: Any, most: int, nodes: Collection[Any]) -> int:
    """The largest value that may be read, from 0 on. Args: node: made of it; most: largest value that it may have."""
    if node not in nodes or not node.args:
        return most
    if not any(hasattr(value, "meta") for value in node.args):
        return ANY  # it counts, or fills: nothing is read
    name, given = _name(node), node.args[0]
    if name == "sum":
        return _most_read(given, most // max(1, prod(_shape(given)) // prod(_shape(node))), nodes)
    if name == "cumsum":
        return _most_read(given, most // max(1, int((_shape(given) or (1,))[node.args[1]])), nodes)
    if name in ("add", "mul"):
        return _most_of_two(name, node.args[:2], most, nodes)
    return _most_read(given, most, nodes) if name in CARRIES else most


def _most_of_two(name: str, given: tuple[Any, ...], most: int, nodes: Collection[Any]) -> int:
    """The same, of a sum or a product. Of two tensors each has its half, or its root; a number is there in full."""
    tensors = [value for value in given if hasattr(value, "meta")]
    if len(tensors) == 2:
        share = most // 2 if name == "add" else int(most**0.5)
    else:
        number = next(value for value in given if not hasattr(value, "meta"))
        if not isinstance(number, int) or number <= 0:
            return most
        share = max(0, most - number) if name == "add" else most // number
    return min(_most_read(tensor, share, nodes) for tensor in tensors)


def _name(node: Any) -> str:
    return str(getattr(getattr(node.target, "_schema", None), "name", "")).rpartition("::")[2]


def _shape(node: Any) -> tuple[Any, ...]:
    return tuple(getattr(node.meta.get("val"), "shape", ())) if hasattr(node, "meta") else ()
