"""Tensors that hold one value throughout: what an operation makes of one element, it makes of all of them.

So `torch.zeros` of any size, and what is computed of it element by element, has values and takes no memory.
"""

from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from .known import Known

SIZES_AT = {"zeros": 0, "ones": 0, "full": 0, "new_zeros": 1, "new_ones": 1, "new_full": 1}
"""Operations that make such a tensor of a size -> place of that among the arguments."""
UNREAD = frozenset(
    {"new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like", "fill_", "zero_", "copy_"}
)
"""Those that do not read their first argument."""
OF_ELEMENTS = frozenset({*SIZES_AT, *UNREAD, "_to_copy"})
PLACED = ("device", "pin_memory", "memory_format", "layout")
"""Options that say where a result lies."""


class _Differs(Exception):
    """A tensor holds several values, or unknown ones."""


def element_of(known: Known, function: Any, args: Any, options: dict[str, Any]) -> torch.Tensor | None:
    """The element that an operation makes or writes all over; None: elements may differ, or are not known."""
    packet, tags = function.overloadpacket.__name__, function.tags
    by_element = torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags
    if not (by_element or packet in OF_ELEMENTS) or function._overloadname.endswith("out"):
        return None

    def reduced_leaf(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.numel() == 1 and known.has_values(leaf):
            return leaf.clone()
        if (element := known.equal_element(leaf)) is None:
            raise _Differs
        return element

    reduced = list(args)
    if packet in SIZES_AT:
        reduced[SIZES_AT[packet]] = [1]
    if packet in UNREAD:
        reduced[0] = torch.empty([1], dtype=args[0].dtype)
    kept = {name: value for name, value in options.items() if name not in PLACED}
    try:
        unread = reduced[: packet in UNREAD]
        result = function(*unread, *tree_map(reduced_leaf, reduced[len(unread) :]), **tree_map(reduced_leaf, kept))
    except (_Differs, RuntimeError, NotImplementedError):
        return None
    made = tree_leaves(result)
    alone = len(made) == 1 and isinstance(made[0], torch.Tensor)  # `equal` of two tensors gives a bool
    return made[0] if alone and made[0].numel() == 1 and not made[0].is_meta else None
