"""Names of questions about kernel calls: equal where code, arguments, values, device and this program are equal."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from hashlib import sha256
from typing import Any

from ...simulator.device.device import Device
from ...simulator.store.keys import device_text, model
from .call import KernelLaunch
from .made_by import call_key


def question_key(calls: Sequence[KernelLaunch], device: Device, name: str, l2: str, advice: bool = False) -> str:
    """The name of a prediction: of launches that follow each other, on a device.

    Args:
        name: of the device, for people; advice: whether what would help is asked for, too.
    """
    launches = [_plain(call) for call in calls]
    asked = [model(), device_text(device), name, l2, launches, *(["advice"] if advice else [])]
    text = json.dumps(asked, sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()


def _plain(call: KernelLaunch) -> Mapping[str, Any]:
    """All of a call that its prediction depends on."""
    return {
        "code": call_key(call.job),
        "name": call.name,
        "grid": call.grid,
        "stages": call.num_stages,
        "arguments": dict(call.arguments),
        "cooperative": call.cooperative,
        "before": [[astuple(use) for use in kernel] for kernel in call.before],
        "tuned": [call.tuned, dict(call.configuration)],
        "storages": [
            [
                storage.number,
                storage.size_bytes,
                storage.name,
                storage.whole,
                # Nobody is told where values come from that are known, or that no address depends on.
                storage.origin if storage.whole and not storage.is_known else "",
                storage.fill.hex(),
                None if storage.values is None else sha256(storage.values).hexdigest(),
            ]
            for storage in call.storages
        ],
    }
