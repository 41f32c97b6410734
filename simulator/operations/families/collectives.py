"""Collectives by NCCL over NVLink or PCIe, and over NICs between hosts: the time of a kernel for bytes and ranks.

NCCL takes the fastest of its protocols, each a fixed time, a latency for each step of the ring, and the bytes that a
GPU sends over what the protocol reaches of its links: LL and LL128 send flags with the data, Simple fences. The same
CTAs copy or add a GPU's own share. An all-reduce of eight GPUs may have the switch add (NVLS). Over PCIe there is no
LL128, and each GPU has less of its link, the more take part. The numbers are those of the table `collective`
(`device/torch_kernels`).

Over several hosts rings go through all GPUs of one before the next, each by another NIC: what a ring sends is paced by
links, or by all NICs of a host. In pairs a GPU sends over its own NIC what is for other hosts. That was not measured.
"""

from collections.abc import Iterator

from ...device.host import Host
from ..cost_model import KernelCostModel
from ..operation import Operation
from ..priced import KernelEstimate, Kernels, NoPrice
from ..stated import is_collective, moved_bytes

RANKS = "group_size"
"""Argument of a recorded collective: how many GPUs take part."""
STRIDE = "group_stride"
"""The same: how far apart they are, in the order of all."""
RING_STEPS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "broadcast": 1}
"""Kinds of collectives over rings, and how often a GPU sends its share to each other one."""
TRANSFER = "transfer"
"""From one GPU to another: LL as of pairs, or as many bytes as a copy over the links moves."""
KINDS = {
    **dict.fromkeys(("allreduce", "all_reduce", "all_reduce_coalesced", "allreduce_coalesced"), "all_reduce"),
    **dict.fromkeys(("allgather", "allgather_base", "allgather_into_tensor_coalesced"), "all_gather"),
    **dict.fromkeys(("all_gather_into_tensor", "all_gather_into_tensor_coalesced"), "all_gather"),
    **dict.fromkeys(("reduce_scatter", "reduce_scatter_base", "reduce_scatter_tensor"), "reduce_scatter"),
    **dict.fromkeys(("reduce_scatter_tensor_coalesced",), "reduce_scatter"),
    **dict.fromkeys(("alltoall", "alltoall_base", "all_to_all_single"), "all_to_all"),
    "broadcast": "broadcast",
    **dict.fromkeys(("send", "recv", "isend", "irecv"), TRANSFER),
}
"""torch's names, without namespace and underscores around them -> kind of collective."""
OVER_PCIE = " over PCIe, as on the one host that was measured: others join their GPUs otherwise"
HOST_GPUS = 8
"""GPUs of a host by default; with all of them NCCL adds in the NVLink switch."""
NET_STEPS = {"all_reduce": (2, 0), "all_gather": (1, -1), "reduce_scatter": (1, -1), "broadcast": (1, 0)}
"""Steps of a ring that go over NICs: of each host, and in all.

Source: NCCL 2.23, src/graph/tuning.cc, nInterSteps."""
NET_STEP_S = {"LL": 2.7e-6, "LL128": 4.0e-6, "Simple": 14.0e-6}
"""Latency of such a step [s]. Kind: assumed. Source: the same, hwLat of NET, rings."""
FEW = 4
"""GPUs over PCIe, up to which each has `pcie_few_fraction` of what one of two has; of more `pcie_many_fraction`."""


def collective(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """One collective. Raises: NoPrice: of GPUs whose links or NICs are not known, or of unknown ranks."""
    name = plain_name(operation)
    kind = KINDS[name]
    ranks = int(operation.arguments.get(RANKS, 0))
    if not gpu.device.link_bytes_per_s:
        raise NoPrice("of GPUs without NVLink, whose PCIe is not in the catalogue")
    if not ranks:
        raise NoPrice("of a group whose size is not known")
    hosts = _hosts(ranks, int(operation.arguments.get(STRIDE, 1)), gpu.device.host)
    touched = gpu.kernel(operation.name, operation.inputs, operation.outputs)
    if kind == TRANSFER and hosts == 1:
        ranks = 2
    if ranks == 1:
        return [touched]
    time_s, protocol, waits_s, paced_by = min(protocols(kind, ranks, moved_bytes(operation), gpu, hosts))
    doubt = f" on {hosts} hosts, by NCCL's latencies and NICs' bandwidths: not measured" if hosts > 1 else ""
    doubt += "" if gpu.device.nvlink_bytes_per_s else OVER_PCIE
    return [
        KernelEstimate(
            name=f"nccl_{name if kind == TRANSFER else kind}",
            source="collective",
            time_s=time_s,
            bound_by="latency" if waits_s > time_s / 2 else paced_by,
            hbm_read_bytes=touched.hbm_read_bytes,
            hbm_write_bytes=touched.hbm_write_bytes,
            l2_bytes=touched.l2_bytes,
            note=f"{kind} of {ranks} GPUs by {protocol}{doubt}",
        )
    ]


def _hosts(ranks: int, stride: int, host: Host) -> int:
    """On how many hosts GPUs are. Raises: NoPrice: on several that they do not fill, or whose NICs are not known."""
    if (ranks - 1) * stride < host.gpus:
        return 1
    if not host.nic_bytes_per_s:
        raise NoPrice(f"of {ranks} GPUs, on more than one host, whose NICs are not known (--host has them),")
    if ranks * stride % host.gpus:
        raise NoPrice(f"of {ranks} GPUs, which do not fill hosts of {host.gpus},")
    return min(ranks, ranks * stride // host.gpus)


def protocols(
    kind: str, ranks: int, size: float, gpu: KernelCostModel, hosts: int = 1
) -> Iterator[tuple[float, str, float, str]]:
    """What each protocol would take.

    Args:
        kind: of `KINDS`.
        ranks: GPUs that take part.
        size: bytes of all ranks' data on one of them: the whole input or output, whichever is larger [B].
        gpu: whose numbers count; hosts: on which as many of them each are.

    Yields:
        Time [s], name of the protocol, what of the time does not hang on bytes [s], and what paces the others.
    """
    link, switched = gpu.device.link_bytes_per_s, gpu.device.nvlink_bytes_per_s > 0
    sent = sent_bytes(kind, ranks, size)

    def cost(name: str) -> float:
        return gpu.cost(f"collective.{name}")

    shared = 1.0 if switched or ranks == 2 else cost("pcie_few_fraction" if ranks <= FEW else "pcie_many_fraction")

    pairs = kind in ("all_to_all", TRANSFER)
    outside = 0.0 if hosts == 1 else size * (1 - 1 / hosts) if kind == "all_to_all" else sent
    inside = sent - outside if pairs else sent
    nics_bytes_per_s = gpu.device.host.nic_bytes_per_s * (1 if pairs else ranks // hosts)
    by_host, more = NET_STEPS.get(kind, (0, 1))
    net_steps = by_host * hosts + more if hosts > 1 else 0

    def made(
        name: str, start_s: float, bytes_per_s: float, own_s: float = 0, steps: int = 0, step_s: float = 0
    ) -> tuple[float, str, float, str]:
        waits_s = start_s + (steps - min(net_steps, steps)) * step_s + net_steps * NET_STEP_S.get(name, 0.0)
        link_s = inside / (shared * bytes_per_s)
        nic_s = outside / nics_bytes_per_s if outside else 0.0
        paced_by = "NIC" if nic_s > link_s else "NVLink" if switched else "PCIe"
        return waits_s + max(link_s, nic_s) + own_s, name, waits_s, paced_by

    if pairs:
        name, fraction = ("transfer", "") if kind == TRANSFER else ("pairs", "pairs_")
        yield made("LL", cost("pairs_ll_s"), cost("pairs_ll_bytes_per_s"))
        yield made("Simple", cost(f"{name}_simple_s"), cost(f"{fraction}simple_fraction") * link)
        return
    steps = RING_STEPS[kind] * (ranks - 1)
    own_s = 0.0 if kind == "broadcast" else size / ranks / cost("own_bytes_per_s")
    for name in ("LL", "LL128") if switched else ("LL",):
        key = name.lower()
        yield made(name, cost(f"{key}_s"), cost(f"{key}_bytes_per_s"), own_s, steps, cost(f"{key}_step_s"))
    yield made("Simple", cost("simple_s"), cost("simple_fraction") * link, own_s, steps, cost("simple_step_s"))
    if kind == "all_reduce" and switched and ranks == HOST_GPUS and cost("switch_fraction"):
        yield made("NVLS", cost("switch_s"), cost("switch_fraction") * link)


def sent_bytes(kind: str, ranks: int, size: float) -> float:
    """What a GPU sends in pairs or around a ring [B]. Args: as of `protocols`."""
    return size if kind in ("broadcast", TRANSFER) else RING_STEPS.get(kind, 1) * size * (ranks - 1) / ranks


def plain_name(operation: Operation) -> str:
    """A collective's name without namespace and underscores around it; empty: it is none."""
    return operation.name.rpartition("::")[2].strip("_") if is_collective(operation) else ""
