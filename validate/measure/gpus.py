"""The GPUs of this machine, as a validation takes them: which, what device file they have, who counts their bytes."""

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ...simulator.device.device import Device
from ..counters.ncu import doubt, find_ncu
from ..counters.ncu_output import NcuFailed
from ..measurement import Machine
from .session import Counting, PointSession, count_points


def visible_gpus() -> list[str]:
    """Numbers of the GPUs that this process may use, as CUDA_VISIBLE_DEVICES takes them."""
    import torch

    named = [part.strip() for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    count = torch.cuda.device_count()
    return named[:count] if named else [str(number) for number in range(count)]


def chosen_gpus(text: str, visible: list[str]) -> list[str]:
    """The GPUs that `--gpus` means: `all`, or the first N.

    Raises:
        ValueError: neither `all` nor a number from 1 to as many as there are.
    """
    if text == "all":
        return visible
    if not text.isdecimal() or not 1 <= int(text) <= len(visible):
        raise ValueError(f"gpus = {text!r}: must be all, or a number from 1 to {len(visible)}")
    return visible[: int(text)]


def open_sessions(
    gpus: list[str], device: Device, named_device: Mapping[str, Any], counted: bool
) -> tuple[list[PointSession], Machine]:
    """Start what measures on these GPUs.

    Args:
        gpus: their numbers.
        device: that launches are built for.
        named_device: the same as jobs name it.
        counted: whether hardware counters are wanted; where there are none, the sessions know why.

    Returns:
        One session per GPU, and what the first is like, as all are.

    Raises:
        Died: no worker can start; the text is the reason.
    """
    version, counting = "", "not asked for (--no-counters)"
    by: dict[str, Counting] = {}
    if counted:
        try:
            ncu = find_ncu()
            why = doubt(ncu, device.l2_bytes)
        except NcuFailed as error:
            counting = str(error)
        else:
            version, counting = ncu.version, why or ""
            by = {} if why else {gpu: partial(count_points, ncu, gpu) for gpu in gpus}
    sessions = [PointSession(gpu, device, named_device, by.get(gpu) or counting) for gpu in gpus]
    return sessions, replace(sessions[0].machine(), ncu=version)
