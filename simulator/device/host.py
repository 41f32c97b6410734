"""A host: which GPUs its links join, how fast these are, and the NICs to other hosts. Files of `hosts/`, by name.

Without a name a device is on a host of eight with the links of its own file, and of other hosts nothing is known.
"""

import tomllib
from dataclasses import dataclass, field, fields
from typing import Any

from ..names import unknown
from .numbers import Provenance, check_keys, check_number, names_in, number, numbers_of, read_entry, text_in

MOST_GPUS = 1024
"""As many as anything here counts with."""
LINKS = ("nvlink_bytes_per_s", "pcie_bytes_per_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What joins GPUs.

    Args:
        name; devices: of the catalogue that it may hold, the first where none is named; links: in words.
        provenance: key -> where its number is from.

    Raises:
        ValueError: a number that no host can have (one line).
    """

    name: str = ""
    devices: tuple[str, ...] = ()
    links: str = ""
    gpus: int = number(1, 1024, "GPUs that its links join")
    nvlink_bytes_per_s: float = number(0, 1e14, "NVLink bandwidth out of a GPU; 0: it has none", optional=True)
    pcie_bytes_per_s: float = number(0, 1e12, "PCIe bandwidth out of a GPU, where no NVLink is", optional=True)
    nic_bytes_per_s: float = number(0, 1e13, "bandwidth of a GPU's NIC to other hosts; 0: not known", optional=True)
    provenance: dict[str, Provenance] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for item in numbers_of(Host):
            check_number(item, getattr(self, item.name))

    @property
    def most(self) -> int:
        """GPUs that it joins, with as many others of its kind as are known to be joined."""
        return MOST_GPUS if self.nic_bytes_per_s else self.gpus


USUAL = Host(gpus=8)
"""The host of a device where none is named."""


def hosts() -> list[str]:
    """Names that `load_host` knows, sorted."""
    return names_in("hosts")


def load_host(name: str) -> Host:
    """A host by its name, in any case. Raises: ValueError: there is none of that name (one line)."""
    if (known := name.lower()) not in hosts():
        raise ValueError(f"host {unknown(name, hosts())}")
    table = tomllib.loads(text_in("hosts", known))
    check_keys(table, {item.name: item for item in fields(Host)}, "")
    entries = {item.name: read_entry(item.name, table[item.name]) for item in numbers_of(Host) if item.name in table}
    texts: dict[str, Any] = {"name": known, "devices": tuple(table["devices"]), "links": table["links"]}
    values = {key: value for key, (value, _) in entries.items()}
    return Host(**texts, **values, provenance={key: origin for key, (_, origin) in entries.items()})
