"""Values of integer tensors that a launch is given, from what says them: the same here and where it is measured."""

from pathlib import Path
from typing import Any

import numpy as np

SEED = 60


def values(what: str, dtype: str, folder: Path = Path()) -> "np.ndarray[Any, Any]":
    """Values of a tensor.

    Args:
        what: such as `arange:33*128`, `permutation:4096`, `random:50257*16384`, `file:rows.npy`; folder: of files.
    """
    kind, _, rest = what.partition(":")
    if kind == "file":
        return np.load(folder / rest)
    first, _, second = rest.partition("*")
    random = np.random.default_rng(SEED)
    if kind == "arange":
        made = np.arange(int(first)) * int(second or 1)
    elif kind == "permutation":
        made = random.permutation(int(first))
    else:
        made = random.integers(0, int(first), int(second))
    return made.astype(dtype)
