"""What tuning entries as a lookup table of torch.compile, which then measures nothing (`torch._inductor.lookup_table`).

    table = lookup_table(tuning, lambda M, N, K: (a(M, K), b(K, N)))
    torch._inductor.config.lookup_table.table = table
    torch._inductor.config.inductor_choices_class = torch._inductor.lookup_table.LookupTableChoices

The kernel that was tuned has to be a twin of Inductor's template, with its names: BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M.
Source: torch 2.13, `lookup_table/choices.py` (keys) and `template_heuristics/triton.py` (what an entry holds).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .tuning import Tuning

if TYPE_CHECKING:
    import torch

BLOCKS = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
OPTIONS = ("GROUP_M", "num_warps", "num_stages")
Table = dict[str, list[dict[str, Any]]]


def lookup_table(
    tuning: Tuning,
    inputs: "Callable[..., Sequence[torch.Tensor]]",
    *,
    op: str = "mm",
    template: str = "triton::mm",
    top: int = 1,
    scalars: Mapping[str, float] | None = None,
) -> Table:
    """The best configurations of a matrix product, by what torch.compile looks them up by.

    Args:
        tuning: of a twin of the template, at each shape; inputs: takes a shape's arguments by name, gives the tensors
            that the compiled graph has (on `meta`: they need no data), the last two are the product's.
        op, template: Inductor's names; top: entries of a key: one is taken without a measurement.
        scalars: of the operation, e.g. `{"alpha": 1, "beta": 1}` of `addmm`.

    Raises:
        ValueError: a configuration lacks what the template needs (one line).
    """
    table: Table = {}
    for launch in tuning.launches:
        tensors = inputs(**launch.shape)
        k, out = tensors[-1].shape[-2], tensors[-1].dtype
        entries = [_entry(item.values, k, str(out), template) for item in launch.predicted[:top]]
        if entries:
            table.setdefault(_key(tensors, op, scalars or {}), entries)
    return table


def _key(tensors: "Sequence[torch.Tensor]", op: str, scalars: Mapping[str, float]) -> str:
    """As `LookupTableChoices.make_lookup_key` has it without a device."""
    nodes = tuple((tensor.dtype, list(tensor.shape), list(tensor.stride())) for tensor in tensors)
    values = "&".join(f"{name}={value}" for name, value in sorted(scalars.items()))
    return "+".join([str(nodes), *([values] if values else []), op])


def _entry(values: Mapping[str, Any], k: int, out: str, template: str) -> dict[str, Any]:
    """Fields of a template's configuration."""
    if missing := [name for name in (*BLOCKS, "num_warps", "num_stages") if name not in values]:
        raise ValueError(f"{missing[0]}: the tuned kernel has no such value; Inductor's {template} needs it")
    given = {name: values[name] for name in (*BLOCKS, *OPTIONS) if name in values}
    whole = "int32" if out.startswith("torch.int") or out.startswith("torch.uint") else "float32"
    fixed = {"EVEN_K": k % values["BLOCK_K"] == 0, "USE_FAST_ACCUM": False, "ACC_TYPE": f"tl.{whole}"}
    return {"template_id": template, "GROUP_M": 8, **given, **fixed}
