"""What L2 holds from one operation to the next: whole storages, the least recently used ones leave first.

Operations touch storages in order; out comes how many bytes of each touch HBM has to move. Writes stay in L2
until their storage leaves it, as they do on the hardware: no byte is written twice, none is lost.
"""

from collections import OrderedDict
from dataclasses import dataclass

from ..device.device import Device


@dataclass(slots=True)
class _Held:
    readable: float
    dirty: float

    @property
    def bytes(self) -> float:
        return max(self.readable, self.dirty)


class StorageCache:
    """Which storages L2 holds, and how much of them is not yet written to HBM.

    A storage that does not fit sweeps L2, itself included: only what is left unwritten of it stays, unread.
    A partly evicted storage has no readable bytes; its dirty bytes remain until they are written back.

    Args:
        device: of whose L2 `l2.held_fraction` (`torch_kernels`) holds storages, and `l2_dirty_fraction` writes.
    """

    def __init__(self, device: Device) -> None:
        self.capacity_bytes = device.l2_bytes * device.torch_kernels["l2.held_fraction"].value
        self.dirty_bytes = min(device.l2_bytes * device.l2_dirty_fraction, self.capacity_bytes)
        self._held: OrderedDict[int, _Held] = OrderedDict()

    @property
    def unwritten_bytes(self) -> float:
        """That HBM has yet to be given [B]."""
        return sum(entry.dirty for entry in self._held.values())

    def readable_bytes(self, storage: int) -> float:
        """That it holds of a storage for readers [B]."""
        return self._held[storage].readable if storage in self._held else 0.0

    def read(self, storage: int, size: float) -> tuple[float, float]:
        """Bytes of `size` that HBM sends, and bytes that it takes in of what had to leave [B]."""
        entry = self._held.pop(storage, _Held(0.0, 0.0))
        if size > self.capacity_bytes:
            return size, entry.dirty + self._make_room(self.capacity_bytes)
        missing = max(size - entry.readable, 0.0)
        entry.readable = max(entry.readable, size)
        return missing, self._put(storage, entry)

    def write(self, storage: int, size: float) -> float:
        """Bytes that HBM takes in now while `size` are written to a storage [B]."""
        entry = self._held.pop(storage, _Held(0.0, 0.0))
        if size <= self.dirty_bytes:
            return self._put(storage, _Held(max(entry.readable, size), max(entry.dirty, size)))
        written = entry.dirty + size - self.dirty_bytes + self._make_room(self.capacity_bytes)
        return written + self._put(storage, _Held(0.0, self.dirty_bytes))

    def _put(self, storage: int, entry: _Held) -> float:
        written = self._make_room(entry.bytes)
        self._held[storage] = entry
        over = self.unwritten_bytes - self.dirty_bytes
        for held in self._held.values():
            if over <= 0.0:
                break
            leaving = min(over, held.dirty)
            held.dirty, over, written = held.dirty - leaving, over - leaving, written + leaving
        return written

    def _make_room(self, size: float) -> float:
        """Evict storages, the oldest first, until `size` bytes fit. Returns: bytes that are written back [B]."""
        over = sum(entry.bytes for entry in self._held.values()) + size - self.capacity_bytes
        written = 0.0
        while self._held and over > 0.0:
            oldest, entry = next(iter(self._held.items()))
            over -= entry.bytes - entry.dirty
            entry.readable, leaving = 0.0, min(max(over, 0.0), entry.dirty)
            entry.dirty -= leaving
            over, written = over - leaving, written + leaving
            if not entry.dirty:
                del self._held[oldest]
        return written
