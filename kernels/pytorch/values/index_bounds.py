"""How large the values may be that a kernel reads and makes indices of, so that these lie inside what they index."""

import sys
from collections.abc import Collection
from math import prod
from typing import Any

GATHERS = ("gather", "index_select", "scatter", "scatter_add")
INDEXES = ("index", "index_put", "_unsafe_index", "_unsafe_index_put")
CARRIES = ("_to_copy", "clone", "expand", "unsqueeze", "squeeze", "view", "reshape", "permute", "select", "slice")
"""Operations that hand on values of their first argument."""
ANY = sys.maxsize
"""Of what reads no values."""


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
