"""What the kernels of the zoo touch in Triton's interpreter: sectors, by CTA, kind and tensor.

Run as `python record.py FILE` with TRITON_INTERPRET=1; writes one JSON object: case -> CTA, as `x,y,z` -> kind and
parameter, as `load X` -> sectors from the tensor's begin.
"""

import json
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from triton.runtime.interpreter import InterpretedFunction

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))

from support.interpreter import record_addresses
from zoo.cases import CASES

SECTOR_BYTES = 32


def recorded(case) -> dict[str, dict[str, list[int]]]:
    """One case. Args: case: function of a device that makes a launch."""
    tensors: dict[str, torch.Tensor] = {}
    run = InterpretedFunction.run

    def noting(function, *args, **kwargs):
        names = function.fn.__code__.co_varnames[: function.fn.__code__.co_argcount]
        given = {name: getattr(argument, "base", argument) for name, argument in zip(names, args, strict=False)}
        tensors.update({name: value for name, value in given.items() if isinstance(value, torch.Tensor)})
        return run(function, *args, **kwargs)

    with patch.object(InterpretedFunction, "run", noting):
        noted = record_addresses(case("cpu"))
    touched: dict[str, dict[str, list[int]]] = {}
    for cta, kinds in noted.items():
        by_key = touched.setdefault(",".join(map(str, cta)), {})
        for kind, parts in kinds.items():
            addresses = np.unique(np.concatenate(parts))
            for name, tensor in tensors.items():
                begin = tensor.data_ptr()
                inside = addresses[(addresses >= begin) & (addresses < begin + tensor.nbytes)] - begin
                if len(inside):
                    by_key[f"{kind} {name}"] = np.unique(inside // SECTOR_BYTES).tolist()
    return touched


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps({name: recorded(case) for name, case in CASES.items()}), encoding="utf-8")
