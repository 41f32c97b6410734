"""Operations of torch while launches are recorded: computed for real where all inputs have values, else by shape alone.

So routing tables come out as they would on a GPU. Small tensors that are made for the GPU with values (`torch.randint`,
`torch.arange`) live on the CPU; all others, and all that is computed from them, live on `meta`.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from .known import Known, element_of
from .operations import UNMADE, Operations, has_formula

MOST_WHOLE = 1 << 24
"""Elements of a tensor of whole numbers from which on it is data: no values are kept of it on the GPU."""
MOST_FLOATS = 1 << 20
"""The same of floats, which are computed with only to choose among them: logits of a router."""
MOST_PRODUCT = 1 << 26
"""Product of the elements of two operands of a matrix product that is computed for real."""
CPU, META = torch.device("cpu"), torch.device("meta")
FILLS = frozenset({
    "copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "set_data",
})  # fmt: skip
"""They overwrite all of a tensor, and do not read it."""
DRAWN = frozenset({"normal_", "uniform_", "trunc_normal_"})
"""They fill a tensor with random numbers, which takes seconds for the parameters of a layer."""
LIKE = frozenset({
    "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like",
    "new_zeros", "new_ones", "new_full",
})  # fmt: skip
"""They read the shape of a tensor, and not its values."""
OF_TORCH = ("aten", "prims", "prim", "profiler", "c10d")
ATEN = torch.ops.aten


class NoValues(RuntimeError):
    """Code asks for values of a tensor that has none; the text is one line."""


class Values(TorchDispatchMode):
    """Below autograd: every operation of ATen, and of libraries, that the user's code comes down to.

    Args:
        known: which tensors have values; operations: what would run on the GPU.
        inside: block in which a library's Python runs as the user's own does.
    """

    def __init__(self, known: Known, operations: Operations, inside: Callable[[], Any]) -> None:
        super().__init__()
        self.launched = False
        self._known, self._operations, self._inside = known, operations, inside
        self._for_gpu = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Not to have torch load its compiler, which takes seconds, to leave this out: no code is compiled."""
        return False

    @contextmanager
    def made_for_gpu(self) -> Iterator[None]:
        """In the block, what is made on `meta` was asked for on the GPU."""
        before, self._for_gpu = self._for_gpu, True
        try:
            yield
        finally:
            self._for_gpu = before

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if body := _body_of(function):
            with self._inside(), self:
                return body(*args, **options)
        with torch._C.DisableTorchFunction():
            return self._run(function, args, options)

    def _run(self, function: Any, args: Any, options: dict[str, Any]) -> Any:
        tensors = [leaf for leaf in tree_leaves((args, options)) if isinstance(leaf, torch.Tensor)]
        if not tensors:
            result = self._made(function, args, options)
            if self._for_gpu and isinstance(result, torch.Tensor):
                self._known.fill(result, element_of(self._known, function, args, options))
            if self.launched and self._for_gpu:
                self._operations.count(function, args, options, result)
            return result
        packet = function.overloadpacket.__name__
        if packet == "_to_copy" and tensors[0].is_meta and options.get("device") == CPU:
            result = torch.empty_like(tensors[0], device=CPU, dtype=options.get("dtype"))
            self._known.forget(result, self._known.origin(tensors[0]))
            return result
        if function.is_view:
            return function(*args, **options)
        if packet in DRAWN and len(tensors) == 1 and tensors[0].dtype.is_floating_point and not is_small(tensors[0]):
            self._known.forget(tensors[0])  # parameters of a module: nobody reads them
            self._known.fill(tensors[0], None)
            return tensors[0]
        on_gpu = self._for_gpu or any(self._known.is_on_gpu(tensor) for tensor in tensors)
        element = element_of(self._known, function, args, options) if on_gpu else None
        result = self._computed(function, packet, args, options, tensors, on_gpu)
        written = written_by(function._schema, args, options)
        for tensor in written or tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._known.fill(tensor, element)
        makes_inputs = (packet in FILLS and packet != "copy_") or packet in LIKE
        if on_gpu and "device" not in options and (self.launched or not makes_inputs):
            self._operations.count(function, args, options, result)
        return result

    def _made(self, function: Any, args: Any, options: dict[str, Any]) -> Any:
        """What a function without tensors makes: with values where it is small, and has some."""
        if not (self._for_gpu and options.get("device") == META):
            return function(*args, **options)
        shape = function(*args, **{**options, **({"generator": None} if "generator" in options else {})})
        allocated = function.overloadpacket.__name__ in UNMADE
        if not isinstance(shape, torch.Tensor) or (allocated and shape.dtype.is_floating_point):
            return shape
        if not is_small(shape):
            self._known.name_origin(shape, too_many(shape))
            return shape
        result = function(*args, **{**options, "device": CPU})
        self._known.put_on_gpu(result)
        if allocated:
            self._known.forget(result.zero_(), f"made by torch.empty{_at()}")
        return result

    def _computed(
        self, function: Any, packet: str, args: Any, options: dict[str, Any], tensors: list[torch.Tensor], on_gpu: bool
    ) -> Any:
        written = written_by(function._schema, args, options)
        fills = packet in FILLS or function._overloadname.endswith("out")
        places = _places(packet, args, options)
        unread = written if fills or places else []
        read = [tensor for tensor in tensors if not any(tensor is other for other in unread)]
        if packet in UNMADE or packet in LIKE:
            known = not any(tensor.is_meta for tensor in tensors)
            options = {name: value for name, value in options.items() if not (known and name == "device")}
        else:
            known = all(self._known.has_values(tensor) for tensor in read)
        if (
            known
            and not any(tensor.is_meta for tensor in written)
            and (not on_gpu or _is_cheap(function, args, options, tensors))
        ):
            result = function(*args, **options)
            for tensor in written:
                if fills:
                    self._known.write(tensor)
                elif places:
                    self._known.write(tensor, places(torch.zeros(tensor.shape, dtype=torch.bool)))
            for made in tree_leaves(result):
                if on_gpu and isinstance(made, torch.Tensor):
                    self._known.put_on_gpu(made)
                    if packet in UNMADE:
                        self._known.forget(made, f"made by torch.{packet}{_at()}")
            return result
        return self._by_shape(function, packet, args, options, written)

    def _by_shape(
        self, function: Any, packet: str, args: Any, options: dict[str, Any], written: list[torch.Tensor]
    ) -> Any:
        """What comes of tensors without values: only its shape; what it is written to has none from now on."""
        twins: dict[int, torch.Tensor] = {}
        originals: dict[int, torch.Tensor] = {}

        def twin(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.is_meta:
                return leaf
            if not leaf.dim() and not any(leaf is other for other in written):
                return leaf
            if id(leaf) not in twins:
                twins[id(leaf)] = _twin(leaf)
                originals[id(twins[id(leaf)])] = leaf
            return twins[id(leaf)]

        origin = self._origin(packet, args, options)
        moved_args, moved_options = tree_map(twin, (args, options))
        try:
            result = function(*moved_args, **moved_options)
        except NotImplementedError:
            raise NoValues(f"torch.{packet.strip('_')} needs the values of a tensor without any, {origin}") from None
        for tensor in written:
            if not tensor.is_meta:
                self._known.forget(tensor, origin)
        for made in tree_leaves(result):
            if isinstance(made, torch.Tensor) and not made.dtype.is_floating_point:
                self._known.name_origin(made, origin)
        given = [leaf for leaf in tree_leaves((args, options)) if _is_tensor(leaf)]
        on_cpu = bool(twins) and options.get("device") != META and not any(leaf.is_meta for leaf in given)

        def placed(leaf: Any) -> Any:
            if id(leaf) in originals or not (on_cpu and _is_tensor(leaf) and leaf.is_meta and is_small(leaf)):
                return originals.get(id(leaf), leaf)
            made = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype)  # where autograd expects it
            self._known.put_on_gpu(made)
            self._known.forget(made, origin)
            return made

        return tree_map(placed, result)

    def _origin(self, packet: str, args: Any, options: dict[str, Any]) -> str:
        """Where values went missing: what left the inputs without, or this operation of floats without."""
        lacking = [
            leaf
            for leaf in tree_leaves((args, options))
            if isinstance(leaf, torch.Tensor) and not self._known.has_values(leaf)
        ]
        earlier = next((text for leaf in lacking if (text := self._known.origin(leaf))), "")
        if not lacking:
            return f"made by torch.{packet.strip('_')} of too many elements to compute here{_at()}"
        return earlier or f"made by torch.{packet.strip('_')} of a tensor without values{_at()}"


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)


def is_small(tensor: torch.Tensor) -> bool:
    """Whether values of a tensor on the GPU are kept, where it has some."""
    return tensor.numel() <= (MOST_FLOATS if tensor.dtype.is_floating_point else MOST_WHOLE)


def too_many(tensor: torch.Tensor) -> str:
    """Why no values are kept of a tensor that is made on the GPU, for people."""
    most = MOST_FLOATS if tensor.dtype.is_floating_point else MOST_WHOLE
    return f"{tensor.numel():,} elements, of more than {most:,} on the GPU none are kept{_at()}"


def _is_cheap(function: Any, args: Any, options: dict[str, Any], tensors: list[torch.Tensor]) -> bool:
    """Whether an operation of tensors on the GPU takes a CPU no time worth speaking of."""
    if not all(is_small(tensor) for tensor in tensors):
        return False
    if has_formula(function):
        return prod(sorted(tensor.numel() for tensor in tensors)[-2:]) <= MOST_PRODUCT
    if len(tensors) < 2:
        return True
    try:
        result = function(*tree_map(_twin, args), **tree_map(_twin, options))
    except (NotImplementedError, RuntimeError):  # its shape depends on values
        return True
    return all(is_small(leaf) for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))


def _places(packet: str, args: Any, options: dict[str, Any]) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """Of an operation that puts values into some elements: what marks these in a mask; None: it is none."""
    if packet in ("index_put_", "_index_put_impl_") and not (options.get("accumulate") or (args[3:] and args[3])):
        return lambda mask: ATEN.index_put_.default(mask, args[1], torch.ones((), dtype=torch.bool))
    if packet == "scatter_" and len(args) == 4 and "reduce" not in options:
        return lambda mask: mask.scatter_(args[1], args[2], True)
    return None


def _twin(leaf: Any) -> Any:
    """A tensor of the same shape without data; what is none stays."""
    if not isinstance(leaf, torch.Tensor) or leaf.is_meta:
        return leaf
    return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=META)


def written_by(schema: Any, args: Any, options: dict[str, Any]) -> list[torch.Tensor]:
    """Tensors that an operation writes to, as its schema says."""
    written = []
    for place, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = options.get(argument.name) if argument.kwarg_only or place >= len(args) else args[place]
            written += [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return written


def _body_of(function: Any) -> Callable[..., Any] | None:
    """The Python of an operator that a library has registered, as it runs on a GPU; None: it has none.

    torch itself would run, on tensors without data, the shapes' function alone, and no kernel would be launched.
    """
    if function.namespace in OF_TORCH:
        return None
    registered = OPDEFS.get(function._schema.name)
    if registered is None or registered._init_fn.__module__.startswith("torch."):
        return None
    body: Callable[..., Any] = registered._backend_fns.get("cuda", registered._init_fn)
    return body


def _at() -> str:
    place = user_line()
    return f" ({place})" if place else ""


def user_line() -> str:
    """File and line of the user's code that runs; empty where none of it does."""
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        module = str(frame.f_globals.get("__name__", "")).split(".")[0]
        if module not in ("torch", "triton", "tilesight", "contextlib", "importlib", "unittest"):
            return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
    return ""
