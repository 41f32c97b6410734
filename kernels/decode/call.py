"""From tensors of a decode to O and LSE: the table of lengths and pages, and the launches of a schedule of splits."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from ...simulator.device.device import Device
from ...simulator.problems.problem import Problem
from ...simulator.schedules.config import Config
from ...simulator.schedules.contract import frozen
from ..launch.launch import Twin, launches_for, run_all, twin_of
from .splits import flash_decode_merge_kernel

MERGE = {"flash_decode_merge": twin_of(flash_decode_merge_kernel)}
"""The kernel of the merge, for `TWINS` of a schedule of splits."""


def table_of(
    cache: torch.Tensor, lengths: torch.Tensor, pages: torch.Tensor | None
) -> tuple[tuple[int, ...], int, torch.Tensor]:
    """Keys of each sequence; those of a page; and TABLE, of both. Args: as of `flash_decode_cache`; cache: k, or alike.

    Raises:
        ValueError: they do not fit together; one line.
    """
    keys = tuple(int(length) for length in lengths.tolist())
    page = 0 if pages is None else cache.shape[1]
    if pages is not None and pages.shape[1] * page < max(keys):
        raise ValueError(f"pages has {pages.shape[1]} of {page} keys a sequence: lengths has {max(keys)}")
    if pages is not None and not 0 <= int(pages.min()) <= int(pages.max()) < cache.shape[0]:
        raise ValueError(f"pages has {int(pages.min())} to {int(pages.max())}: k has 0 to {cache.shape[0] - 1}")
    if pages is None and cache.shape[2] != max(keys):
        raise ValueError(f"k has room for {cache.shape[2]} keys: must be that of the longest of lengths, {max(keys)}")
    columns = [lengths[:, None], *([] if pages is None else [pages])]
    return keys, page, torch.cat([column.to(torch.int32) for column in columns], 1).contiguous()


def decoded(
    schedule: str,
    twins: Mapping[str, Twin],
    problem: Problem,
    tensors: dict[str, torch.Tensor],
    arguments: dict[str, float],
    config: Config | None,
    device: Device | str | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """O and LSE by a schedule of splits and their merge.

    Args:
        schedule: its name; twins: of its launches; tensors: by name of the program's; arguments: of the
            first launch, in the place of its own.
    """
    q = tensors["Q"]
    first, *merge = launches_for(schedule, problem, config, device, q)
    if first.constants.get("own_splits"):
        declared = first.program.tensor("TABLE")
        counts = np.frombuffer(declared.values or b"", np.int32).reshape(declared.rows, -1)[:, :1]
        tensors["TABLE"] = torch.cat([torch.tensor(counts, device=q.device), tensors["TABLE"]], 1)
    width = {"table_width": tensors["TABLE"].shape[1]} if "TABLE" in tensors else {}
    first = replace(first, arguments=frozen(**{**first.arguments, **arguments}))
    launches = tuple(
        replace(launch, arguments=frozen(**{**launch.arguments, **width}))
        if "table_width" in launch.arguments
        else launch
        for launch in (first, *merge)
    )
    run_all(launches, twins, tensors)
    return tensors["O"].view(*q.shape[:3], -1), tensors["LSE"].view(q.shape[:3])
