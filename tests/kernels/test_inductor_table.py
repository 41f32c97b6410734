"""A lookup table of torch.compile from tuned times: read by torch's own code, with the fields of its own heuristics."""

from types import SimpleNamespace
from typing import Any

import pytest
from support.made_rows import row_of
from tilesight.kernels.launch.availability import missing_package

from tilesight.tuning.inductor import Table, lookup_table
from tilesight.tuning.tuning import Configured, TunedLaunch, Tuning, ranked

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch

lookups = pytest.importorskip("torch._inductor.lookup_table")

SHAPE = {"M": 64, "N": 128, "K": 96}
BEST = {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}


def inputs(M: int, N: int, K: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A product with K-major weights."""
    return (torch.empty(M, K, device="meta", dtype=torch.bfloat16), torch.empty(N, K, device="meta").bfloat16().t())


def tuning_of(*values: dict[str, Any]) -> Tuning:
    """Configurations that take 1, 2, ... microseconds."""
    configured = [Configured(values=item, row=row_of(place * 1e-6)) for place, item in enumerate(values, 1)]
    launch = TunedLaunch(kernel="mm", shape=SHAPE, key={}, configured=ranked(configured), default=values[0])
    return Tuning(target="mm.py:mm", device="h100-sxm", launches=(launch,))


def looked_up(table: Table, op: str, scalars: dict[str, float] | None = None) -> Any:
    """What torch finds for the product, whose nodes are stood in for."""

    class Choices(lookups.LookupTableChoices):  # type: ignore[name-defined, misc]
        _get_lookup_table = staticmethod(lambda: table)
        _get_device_key = staticmethod(lambda device: "sm_90")

    tensors = inputs(**SHAPE)
    nodes = SimpleNamespace(
        device=lambda: torch.device("cuda", 0),
        dtypes=lambda: tuple(tensor.dtype for tensor in tensors),
        shapes_hinted=lambda: tuple(tuple(tensor.shape) for tensor in tensors),
        strides_hinted=lambda: tuple(tensor.stride() for tensor in tensors),
        _scalars=scalars or {},
    )
    return Choices().lookup_template_configs(nodes, op, ["triton::mm", "aten::mm"])


def test_torch_finds_the_best_configuration() -> None:
    """By types, shapes and strides, and of the template that it is for; no other operation has it."""
    table = lookup_table(tuning_of(BEST, {**BEST, "num_stages": 2}), inputs)
    (entry,) = looked_up(table, "mm")["triton::mm"]
    assert entry.items() >= BEST.items()
    assert looked_up(table, "addmm") == {}


def test_scalars_are_part_of_what_is_looked_up() -> None:
    """As of addmm."""
    table = lookup_table(tuning_of(BEST), inputs, op="addmm", scalars={"beta": 1, "alpha": 1})
    assert looked_up(table, "addmm", {"alpha": 1, "beta": 1})["triton::mm"]
    assert looked_up(table, "addmm") == {}


def test_an_entry_has_the_fields_of_torch_s_own_heuristics() -> None:
    """With their values, of a product whose last step along k is whole, and of one whose is not."""
    from torch._inductor.kernel.mm import mm_template
    from torch._inductor.template_heuristics.triton import MMTemplateConfigMixin
    from torch._inductor.virtualized import V
    from triton import Config

    sizes = SimpleNamespace(sizevars=SimpleNamespace(statically_known_true=bool))
    for block in (32, 64):
        values = {**BEST, "BLOCK_K": block}
        config = Config({name: values[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K")}, num_warps=4, num_stages=3)
        with V.set_graph_handler(sizes):
            by_torch = MMTemplateConfigMixin._convert_config_to_template_kwargs(
                SimpleNamespace(_get_acc_type=lambda dtype: "tl.float32"), config, 64, 128, 96, torch.bfloat16
            )
        ((entry,),) = lookup_table(tuning_of(values), inputs).values()
        assert entry.pop("template_id") == mm_template.uid
        assert entry == by_torch


def test_a_kernel_without_the_template_s_names_is_refused() -> None:
    """In one line."""
    with pytest.raises(
        ValueError, match=r"^BLOCK_K: the tuned kernel has no such value; Inductor's triton::mm needs it$"
    ):
        lookup_table(tuning_of({name: value for name, value in BEST.items() if name != "BLOCK_K"}), inputs)
