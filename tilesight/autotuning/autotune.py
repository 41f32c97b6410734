"""`tilesight.autotune` and `tilesight.prune`: configurations chosen by prediction, in the process that launches."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..simulator.arguments import shown, whole
from ..simulator.device.device import Device, found_device

if TYPE_CHECKING:
    from .contents import Values

BUDGET_S = 120.0
"""What a choice may take by default [s]: 60 configurations of a GEMM that were not asked for yet
take an eighth of it, on a busy machine a third."""
Hook = Callable[..., Sequence[Any]]


def autotune(
    configs: Sequence[Any],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    *,
    keep: int = 1,
    device: Device | str | None = None,
    values: "Values" = None,
    budget_s: float | None = BUDGET_S,
    **options: Any,
) -> Callable[[Any], Any]:
    """Decorate a Triton kernel as `triton.autotune` does, with the configurations that are predicted fastest.

    Args:
        configs, key, prune_configs_by, options: as `triton.autotune` takes them; a pruning of the user's comes first.
        keep: configurations that are measured; 1: the choice is a function of code and shapes, and nothing is measured.
        device, values, budget_s: as `prune` takes them.

    Returns:
        A decorator; what it makes is an autotuner of Triton's.

    Raises:
        RuntimeError: torch or triton is missing (one line).
        ValueError: unknown device, or another setting that is not allowed.
    """
    _check(keep, device, values, budget_s)
    given = dict(prune_configs_by or {})
    earlier: Hook | None = given.pop("early_config_prune", None)

    def decorator(kernel: Any) -> Any:
        from .chooser import ChoosingAutotuner

        chosen = prune(kernel, keep=keep, device=device, values=values, budget_s=budget_s)

        def both(configs: Sequence[Any], named_args: Mapping[str, Any], **kwargs: Any) -> Sequence[Any]:
            return chosen(earlier(configs, named_args, **kwargs) if earlier else configs, named_args, **kwargs)

        pruning = {**given, "early_config_prune": both}
        defaults = {"reset_to_zero": None, "restore_value": None}
        return ChoosingAutotuner(
            kernel, kernel.arg_names, configs, key, prune_configs_by=pruning, **{**defaults, **options}
        )

    return decorator


def prune(
    kernel: Any,
    *,
    keep: int = 3,
    device: Device | str | None = None,
    values: "Values" = None,
    budget_s: float | None = BUDGET_S,
) -> Hook:
    """A hook for `triton.autotune(prune_configs_by={"early_config_prune": ...})`: the fastest by prediction stay.

    Where nothing can be chosen, all stay, and a warning says why.

    Args:
        kernel: what the autotuner decorates: the `triton.jit` function, heuristics around it or not.
        keep: configurations that stay.
        device: a name, a path to a TOML file, or the device itself; None: the GPU that holds the tensors.
        values: of tensors of whole numbers, which addresses may depend on: None: a canonical content that depends on
            shapes alone (`contents`); True: as they are; or parameter -> a tensor, or a function of all arguments
            that makes it, and canonical ones for the others.
        budget_s: what a choice may take; None: as long as it likes [s].

    Raises:
        RuntimeError: torch or triton is missing (one line).
        ValueError: unknown device, or another setting that is not allowed.
    """
    _check(keep, device, values, budget_s)
    from .chooser import Chooser

    named = None if device is None else found_device(device)
    return Chooser(kernel, keep=keep, device=named, values=values, budget_s=budget_s)


def _check(keep: int, device: Device | str | None, values: "Values", budget_s: float | None) -> None:
    from ..kernels.launch.availability import missing_package

    whole("keep", keep)
    if device is not None:
        found_device(device)
    if not (values is None or values is True or isinstance(values, Mapping)):
        raise ValueError(f"values = {shown(values)}: must be None, True, or a table of parameter -> tensor or function")
    number = isinstance(budget_s, int | float) and not isinstance(budget_s, bool)
    if budget_s is not None and not (number and budget_s > 0):
        raise ValueError(f"budget_s = {shown(budget_s)}: must be a number of seconds above 0, or None")
    if reason := missing_package():
        raise RuntimeError(reason)
