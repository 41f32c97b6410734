"""Which parameters a kernel may store to, read from its source: torch code that reads these later reads no values.

A parameter counts where its name goes into the address of a store or an atomic, by way of other names or not, or where
it is handed to another function of the user's.
"""

import ast
import builtins
from functools import lru_cache
from typing import Any

STORES = ("store", "atomic", "to_global", "scatter")
LOADS = ("load", "gather")
PARTS = ("warp_specialize",)
"""Functions that are handed other functions of the user's, with their arguments."""


@lru_cache(maxsize=256)
def stored_parameters(function: Any) -> frozenset[str]:
    """Names of the parameters of a `JITFunction` that it may store to; all of them where its source cannot be read."""
    parameters = frozenset(function.arg_names)
    try:
        tree = function.parse()
    except (OSError, SyntaxError, AssertionError):
        return parameters
    reached: set[str] = set()
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            name = _name(call.func)
            if any(word in name for word in STORES):
                owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
                reached |= _names([*owner, *call.args[:1], *(word.value for word in call.keywords)])
            elif name not in {*parameters, *dir(builtins)} and (isinstance(call.func, ast.Name) or name in PARTS):
                reached |= _names([*call.args, *(word.value for word in call.keywords)])
    before = -1
    while len(reached) > before:
        before = len(reached)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if _names(targets) & reached:
                    reached |= _names([node.value])
    return parameters & reached


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _names(nodes: list[Any]) -> set[str]:
    """Names in expressions, without those that lie in what is loaded there."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Call) and any(word in _name(node.func) for word in LOADS):
            continue
        if isinstance(node, ast.Name):
            names.add(node.id)
        names |= _names(list(ast.iter_child_nodes(node)))
    return names
