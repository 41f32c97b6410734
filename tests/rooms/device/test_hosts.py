"""Hosts: files with sources, links that change no answer of one host, collectives over NICs by closed forms."""

from dataclasses import replace

import pytest
from support.torch_prices import tensor
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.device.host import hosts, load_host
from tilesight.simulator.device.what_if import on_host, override
from tilesight.simulator.explore.splits import ways
from tilesight.simulator.models.catalogue import load_model
from tilesight.simulator.operations.cost_model import KernelCostModel
from tilesight.simulator.operations.families.collectives import protocols
from tilesight.simulator.operations.model_step import Split, prefill_step
from tilesight.simulator.operations.operation import Operation
from tilesight.simulator.operations.price import price
from tilesight.simulator.operations.priced import KernelEstimate

from tilesight.cli.main import main

NIC = 48e9
ON_HOST = on_host(load_device("h200"), load_host("hgx-h200"))


def reduced(ranks: int, device: Device, stride: int = 1, name: str = "c10d::allreduce_") -> KernelEstimate:
    """A collective of 64 MiB."""
    x = tensor(1, 32 << 20)
    arguments = {"group_size": ranks, "group_stride": stride}
    work = Operation(kind="torch", name=name, inputs=(x,), outputs=(x,), arguments=arguments)
    (kernel,) = price(work, KernelCostModel(device))
    return kernel


@pytest.mark.parametrize("name", hosts())
def test_a_host_has_the_links_of_its_gpus_and_says_from_where(name: str) -> None:
    """As the device's own file has them, so that naming the host changes no answer of one host."""
    host = load_host(name)
    for device in map(load_device, host.devices):
        held = on_host(device, host)
        assert held.link_bytes_per_s == device.link_bytes_per_s and host.links
        assert reduced(8, held) == reduced(8, device)
    assert all(origin.source for origin in host.provenance.values()) and host.gpus == 8


def test_what_is_set_stays() -> None:
    """A what-if of the link goes before the host's."""
    device = override(load_device("h200"), ["nvlink_bytes_per_s=200e9"])
    assert on_host(device, load_host("hgx-h200")).nvlink_bytes_per_s == 200e9


@pytest.mark.parametrize("ranks", [16, 32, 64])
def test_over_hosts_nothing_beats_its_nics_and_links(ranks: int) -> None:
    """A ring takes all NICs of a host, pairs have one each; more hosts take longer; few bytes wait for each of them."""
    gpu, size = KernelCostModel(ON_HOST), 1 << 30
    outside = 1 - 8 / ranks
    times = {kind: min(protocols(kind, ranks, size, gpu, ranks // 8)) for kind in ("all_to_all", "all_reduce")}
    assert times["all_to_all"][0] > outside * size / NIC and times["all_to_all"][3] == "NIC"
    assert times["all_reduce"][0] > 2 * size * (ranks - 1) / ranks / min(8 * NIC, ON_HOST.link_bytes_per_s)
    short = [min(protocols("all_reduce", hosts * 8, 1024, gpu, hosts))[0] for hosts in (1, 2, ranks // 8)]
    assert short == sorted(short) and short[1] > short[0] + 2 * 2 * 2e-6


def test_a_mesh_has_inner_groups_on_a_host_and_outer_ones_over_nics() -> None:
    """Two GPUs eight apart have a NIC each, eight beside each other NVLink; each answer over NICs says so."""
    inner, outer = reduced(8, ON_HOST), reduced(2, ON_HOST, stride=8)
    assert "hosts" not in inner.note and inner.bound_by == "NVLink"
    assert "on 2 hosts" in outer.note and "not measured" in outer.note and outer.bound_by == "NIC"
    assert outer.time_s > (64 << 20) / NIC
    assert "on 2 hosts" in reduced(16, ON_HOST, name="c10d::send").note
    assert "on 1 hosts" not in reduced(4, ON_HOST, stride=2).note


@pytest.mark.parametrize(
    ("device", "ranks", "said"),
    [(ON_HOST, 12, "do not fill hosts of 8"), (load_device("h200"), 16, "whose NICs are not known (--host has them)")],
)
def test_gpus_that_are_not_joined_have_no_price(device: Device, ranks: int, said: str) -> None:
    """Why, and what states one."""
    reason = reduced(ranks, device).reason
    assert said in reason and "--price" in reason


def test_a_model_on_two_hosts_has_a_stage_on_each() -> None:
    """Beside one group and copies; stages send once over a NIC, which costs less than to reduce over hosts."""
    model = load_model("llama-3-70b")
    every = list(ways(model, 16, ON_HOST.host.most))
    assert {split.gpus for split in every} == {1, 2, 4, 8, 16} and Split(tp=8, pp=2, most=1024) in every
    assert max(split.gpus for split in ways(model, 8)) == 8 and all(split.pp == 1 for split in ways(model, 8))
    staged, whole = (
        prefill_step(model, ON_HOST, split, 4096) for split in (Split(tp=8, pp=2, most=16), Split(tp=16, most=16))
    )
    inside = prefill_step(model, ON_HOST, Split(tp=8), 4096)
    sent_s = staged.communication_s - inside.communication_s
    assert 4096 * 8192 * 2 / NIC < sent_s < whole.communication_s - inside.communication_s
    with pytest.raises(ValueError, match="gpus = 16: must be at most 8"):
        replace(Split(tp=8), replicas=2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--gpus 16", "--gpus = 16: must be at most 8, the GPUs of one host"),
        ("--gpus 16 --host l40s-pcie", "--host l40s-pcie: joins 8 GPUs, not 16"),
        ("--host hgx-h100", "--host hgx-h100: changes nothing for one GPU"),
        ("--gpus 16 --host hgx-h300", "--host 'hgx-h300' is unknown: did you mean hgx-h"),
        ("--gpus 16 --host hgx-h100 --device h200", "--host hgx-h100: holds h100-sxm, not h200"),
    ],
)
def test_what_a_host_has_not_is_one_line(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2."""
    assert main(["model", "llama-3-8b", *arguments.split()]) == 2
    printed = capsys.readouterr()
    assert not printed.out and printed.err.count("\n") == 1 and said in printed.err
