"""Operations of torch in the order in which they are enqueued: one dispatch mode above fake tensors.

What lies on the CPU is computed; what lies on the device has shapes, and values only where these are small whole
numbers that the code itself has made.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_map

from ...simulator.operations.operation import Operation, Phase
from ..capture.streams import StreamOrder
from ..capture.values import MOST_WHOLE, written_by
from .layers.native import parts_of
from .places import SourceLocations
from .storages import WHOLE, Storages, is_real, outside, parts_in, tensors_in

MOST_ON_CPU = 1 << 22
"""Elements of a tensor on the CPU from which on it has no data: parameters on their way to the device."""
NO_KERNEL = frozenset({
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "detach", "alias",
    "lift", "lift_fresh", "set_", "resize_", "_reshape_alias", "record_stream", "is_same_size", "detach_", "set_data",
    "_has_compatible_shallow_copy_type", "sym_size", "sym_stride", "sym_numel",
    "as_strided_", "squeeze_", "unsqueeze_", "transpose_", "t_", "swapaxes_", "swapdims_",
})  # fmt: skip
"""Operations that launch nothing, beside views."""
FILLS = frozenset({
    "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "rand", "randn", "randint", "rand_like",
    "randn_like", "new_zeros", "new_ones", "new_full", "arange", "linspace", "eye", "scalar_tensor", "normal_",
    "uniform_", "zero_", "fill_", "random_", "bernoulli_", "_to_copy",
})  # fmt: skip
"""Operations that make inputs and parameters, or fill them."""
PINS = frozenset({"is_pinned", "pin_memory", "_pin_memory"})
COMPARED = frozenset({"equal", "allclose"})
PLAIN = (bool, int, float, str)


class DependsOnData(RuntimeError):
    """What a step does depends on values that are not known; the text is one line."""


class Recorder(TorchDispatchMode):
    """Takes down operations.

    Attributes:
        operations: in order, while `is_on`; notes: one line each, in order.
        storages, places, order: what it knows of memory, code and streams; phase: of the step.
        inits: fills of new tensors before the first other operation.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.notes: dict[str, None] = {}
        self.storages, self.places = Storages(), SourceLocations()
        self.order = StreamOrder(self.notes)
        self.phase: Phase = "forward"
        self.is_on = False
        self.inits = 0
        self.parameters: dict[int, int] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Otherwise Dynamo would leave all code uncompiled, without a word."""
        return True

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        schema = getattr(function, "_schema", None)
        name = name_of(function)
        given = tensors_in((args, options))
        if any(map(is_traceable_wrapper_subclass, given)):
            return NotImplemented  # as those do that it is made of, which come here
        if name == "_local_scalar_dense":
            return self._read(args[0])
        if name in PINS:
            return False if name == "is_pinned" else args[0]
        if "generator" in options:
            options["generator"] = None  # one of the CPU: there is no other
        if _is_of_cpu(name, given, args, options):
            with outside():
                return function(*args, **options)
        if name not in NO_KERNEL and (run := parts_of(function)):
            with self:
                return run(*args, **options)
        values = self._computed(function, name, given, args, options)
        if name == "_to_copy" and values is not None and _type(options.get("device")) == "cpu":
            self._take_down(function, name, given, args, options, [])
            return values
        try:
            result = function(*args, **options)
        except (DynamicOutputShapeException, DataDependentOutputException):
            result = self._depending(name, values)
        except (NotImplementedError, RuntimeError, AssertionError) as error:
            given_results = _only_written(schema, args, options)
            if not given_results or not _lacks_formula(error):
                raise
            # Their shapes are known without torch's formula, which it lacks.
            result = given_results[0] if len(given_results) == 1 else tuple(given_results)
        made = tensors_in(result)
        launches = not (name in NO_KERNEL or getattr(function, "is_view", False) or str(function).startswith("prim."))
        if schema is not None and launches:
            self._keep_values(name, schema, args, options, made, values)
        self._take_down(function, name, given, args, options, made, launches)
        return result

    @contextmanager
    def recording(self, given: Iterable[torch.Tensor]) -> Iterator[None]:
        """Take operations down in the block, in the place of any before. Args: given: tensors that are alive."""
        self.parameters.clear()
        self.operations.clear()
        self.inits = 0
        for tensor in given:
            self.note_tensor(tensor)
        self.storages.peak_bytes = self.storages.live_bytes
        self.storages.begin_step()
        self.order.begin_step()
        self.is_on = True
        try:
            yield
        finally:
            self.is_on = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What is made in the block does not count."""
        before, self.is_on = self.is_on, False
        try:
            yield
        finally:
            self.is_on = before

    def note_tensor(self, tensor: torch.Tensor) -> None:
        """A tensor is alive."""
        if isinstance(tensor, torch.nn.Parameter):
            self.note_parameter(tensor)
        for part in parts_in(tensor):
            if _is_on_device(part):
                self.storages.number(part)

    def note_parameter(self, tensor: torch.Tensor) -> None:
        """A parameter or buffer is alive."""
        for part in parts_in(tensor):
            if isinstance(part, FakeTensor) and _is_on_device(part):
                self.parameters[self.storages.number(part)] = part.untyped_storage().nbytes()

    def add(self, operation: Operation, group: str = "") -> None:
        """Take one down, once recording is on. Args: group: of an asynchronous collective."""
        if self.is_on:
            self.operations.append(self.order.placed(operation, len(self.operations), group))

    def _take_down(
        self, function: Any, name: str, given: Any, args: Any, options: Any, made: Any, launches: bool = True
    ) -> None:
        schema = getattr(function, "_schema", None)
        written = _only_written(schema, args, options)
        inputs = [x for x in given if _is_on_device(x) and not any(x is other for other in written)]
        outputs = [x for x in made if _is_on_device(x)]
        if schema is not None and not made:
            outputs = [x for x in written_by(schema, args, options) if _is_on_device(x)]
        for tensor in (*inputs, *outputs):
            self.note_tensor(tensor)
        if not launches or not (inputs or outputs) or not self.is_on:
            return
        place = self.places.here(self.phase == "backward")
        known: dict[str, int] = (
            {"layer": True} if name.startswith("_thnn_fused") and self.places.in_recurrent_layer() else {}
        )
        arguments = plain_arguments(schema, args, options)
        group = _group(schema, args)
        if group is not None:
            ranks = torch.distributed.get_process_group_ranks(group)
            known = {"group_size": len(ranks), "group_stride": (ranks[-1] - ranks[0]) // max(len(ranks) - 1, 1)}
        if name in FILLS and not inputs[len(outputs) :] and len(self.operations) == self.inits:
            self.inits += 1
        self.add(
            Operation(
                kind="torch",
                name=name,
                overload=str(getattr(function, "_overloadname", "")),
                inputs=tuple(map(self.storages.operand, inputs)),
                outputs=tuple(map(self.storages.operand, outputs)),
                arguments={**arguments, **_precision(inputs), **known},
                module=place.module,
                where=place.where,
                phase=self.phase,
                live_bytes=self.storages.live_bytes,
            ),
            group.group_desc if group is not None and arguments.get("async_op", True) else "",
        )

    def _read(self, tensor: torch.Tensor) -> Any:
        """The host asks for a number: the true one where it is known, else a guess, noted."""
        values = self.storages.values(tensor)
        if values is not None:
            with outside():
                return values.item()
        guess = True if tensor.dtype == torch.bool else 1.0 if tensor.dtype.is_floating_point else 1
        place = self.places.here()
        dtype = str(tensor.dtype).removeprefix("torch.")
        at = f" ({place.where})" if place.where else ""
        self.notes[f"a {dtype} that the host reads is not known: {guess} is guessed{at}"] = None
        return guess

    def _computed(self, function: Any, name: str, given: Any, args: Any, options: Any) -> Any:
        """Results of an operation of the device on known whole numbers; None: there are none."""
        dtype = options.get("dtype")
        makes = _type(options.get("device")) == "cuda" and not (dtype is not None and dtype.is_floating_point)
        if not given and not (makes and _elements(name, args) <= MOST_WHOLE):
            return None
        if name in NO_KERNEL or getattr(function, "is_view", True) or (all(map(is_real, given)) and not makes):
            return None
        return self.storages.computed(function, given, args, options)

    def _keep_values(self, name: str, schema: Any, args: Any, options: Any, made: Any, values: Any) -> None:
        """Have values of what an operation has made, or forget those of what it wrote to."""
        written = [x for x in (*made, *written_by(schema, args, options)) if _is_on_device(x)]
        if values is None:
            for tensor in written:
                if tensor.dtype in WHOLE:
                    self.storages.forget(tensor, f"made by {name}")
            return
        for tensor, known in zip(made, tensors_in(values), strict=False):
            if _is_on_device(tensor) and self.storages.values(tensor) is None:
                self.storages.keep(tensor, known)

    def _depending(self, name: str, values: Any) -> Any:
        """Results that are known by values alone."""
        if values is None and name in COMPARED:
            self.notes[f"{name} of tensors without values is guessed to be true"] = None
            return True
        if values is None:
            where = self.places.here().where
            raise DependsOnData(
                f"{name}{f' at {where}' if where else ''}: the shape of its output depends on data, which is not known"
            ) from None
        return tree_map(
            lambda leaf: (
                torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device="cuda")
                if isinstance(leaf, torch.Tensor)
                else leaf
            ),
            values,
        )


def name_of(function: Any) -> str:
    """Name of an operation as prices have it: without `aten`."""
    schema = getattr(function, "_schema", None)
    if schema is None:
        return str(function.name()) if callable(getattr(function, "name", None)) else str(function)
    namespace, _, name = str(schema.name).partition("::")
    return name if namespace in ("aten", "prim", "prims") else f"{namespace}::{name}"


def _lacks_formula(error: BaseException) -> bool:
    """Whether torch lacks an operation's formula of shapes, in whose place it may try to run it on the device."""
    return isinstance(error, NotImplementedError) or isinstance(error.__context__, NotImplementedError)


def _is_on_device(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cuda"


def _type(device: Any) -> str:
    return torch.device(device).type if device is not None else ""


def _elements(name: str, args: Any) -> int:
    """Of a tensor that is made of a shape, or of `arange`'s numbers, at most."""
    if name == "arange":
        return max((int(value) for value in args if isinstance(value, int | float)), default=0)
    return max((prod(map(int, value)) for value in args if isinstance(value, list | tuple)), default=1)


def _is_of_cpu(name: str, given: Any, args: Any, options: Any) -> bool:
    """Whether an operation is computed here: all that it is about lies on the CPU, and is small."""
    device = _type(options.get("device"))
    if not given:
        return device in ("", "cpu") and _elements(name, args) <= MOST_ON_CPU
    return all(is_real(tensor) and tensor.numel() <= MOST_ON_CPU for tensor in given) and device in ("", "cpu")


def _only_written(schema: Any, args: Any, options: Any) -> list[torch.Tensor]:
    """Tensors of `out=`."""
    if schema is None:
        return []
    return [x for argument in schema.arguments if argument.is_out for x in tensors_in(options.get(argument.name))]


def _precision(operands: Iterable[torch.Tensor]) -> dict[str, bool]:
    """`tf32`, where the code lets products of float32 be rounded to it."""
    rounded = torch.get_float32_matmul_precision() != "highest"
    return {"tf32": True} if rounded and any(x.dtype == torch.float32 for x in operands) else {}


def _group(schema: Any, args: Any) -> Any:
    """The process group of a collective; None: it is none."""
    if schema is None or "c10d" not in str(schema.name):
        return None
    from torch.distributed import ProcessGroup
    from torch.distributed.distributed_c10d import _resolve_process_group

    given = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)}
    if isinstance(name := given.get("group_name"), str):
        return _resolve_process_group(name)
    group = given.get("process_group")
    return ProcessGroup.unbox(group) if group is not None else None


def plain_arguments(schema: Any, args: Any, options: Any) -> Mapping[str, Any]:
    """Arguments that are no tensors, by the names of the schema; what is not plain is left out."""
    if schema is None:
        return {}
    given = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)} | options
    made = {name: _plain(value) for name, value in given.items()}
    return {name: value for name, value in made.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, torch.device):
        return value.type
    if isinstance(value, torch.Tensor) and not value.dim() and is_real(value):
        with outside():
            return value.item()
    if isinstance(value, list | tuple) and all(isinstance(item, PLAIN) for item in value):
        return tuple(value)
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return None
    return value if isinstance(value, PLAIN) else None
