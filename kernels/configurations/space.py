"""Values to try of a kernel's parameters, beside those that its author wrote down.

As a file, TOML: a line for each parameter of any kernel, and a table for each kernel that has values of its own.

    num_warps = [4, 8]
    [matmul]
    BLOCK_M = [64, 128]
"""

import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""What Triton's compiler is asked for beside compile-time constants."""
MOST = 100_000
"""Configurations of one launch."""
Value = bool | int | float | str
Values = Mapping[str, tuple[Value, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Values to try.

    Args:
        every: parameter -> values, for each kernel that has it; of: kernel -> the same, for it alone.
    """

    every: Values = field(default_factory=dict)
    of: Mapping[str, Values] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.every or self.of)

    def values(self, kernel: str, constants: Collection[str]) -> dict[str, tuple[Value, ...]]:
        """What is to be tried of a kernel. Args: constants: names of its compile-time constants."""
        given = {**self.every, **self.of.get(kernel, {})}
        return {name: values for name, values in given.items() if name in constants or name in OPTIONS}

    def unread(self, kernels: Mapping[str, Collection[str]]) -> str:
        """What of it no kernel has, in one line; empty where all is read. Args: kernels: name -> its constants."""
        for kernel, values in self.of.items():
            if kernel not in kernels:
                return f"the space names [{kernel}]: no kernel of that name is launched: {', '.join(kernels)}"
            for name in values:
                if name not in kernels[kernel] and name not in OPTIONS:
                    return f"the space names {kernel}.{name}: no constexpr of that kernel: {_allowed(kernels[kernel])}"
        known = {name for constants in kernels.values() for name in constants}
        for name in self.every:
            if name not in known and name not in OPTIONS:
                return f"the space names {name}: no constexpr of {', '.join(kernels)}: {_allowed(known)}"
        return ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {**{name: list(values) for name, values in self.every.items()}, **{
            kernel: {name: list(values) for name, values in of_kernel.items()} for kernel, of_kernel in self.of.items()
        }}  # fmt: skip


def combinations(values: Values) -> Iterator[dict[str, Value]]:
    """Every combination of values, the last parameter changing fastest."""
    for combination in product(*values.values()):
        yield dict(zip(values, combination, strict=True))


def label_of(configuration: Mapping[str, Any]) -> str:
    """A configuration in a line, e.g. `BLOCK: 128, num_warps: 4`."""
    return ", ".join(f"{name}: {value}" for name, value in configuration.items())


def space_of(given: Mapping[str, Any]) -> Space:
    """A space from what a TOML file holds. Raises: ValueError: something else stands there; one line."""
    every = {name: _values(name, values) for name, values in given.items() if not isinstance(values, dict)}
    of = {
        kernel: {name: _values(f"{kernel}.{name}", values) for name, values in of_kernel.items()}
        for kernel, of_kernel in given.items()
        if isinstance(of_kernel, dict)
    }
    space = Space(every=every, of=of)
    for kernel, of_kernel in (("", {}), *of.items()):
        count = prod(len(values) for values in {**every, **of_kernel}.values())
        if count > MOST:
            raise ValueError(f"{f'[{kernel}]: ' if kernel else ''}{count:,} combinations: at most {MOST:,} are tried")
    return space


def read_space(path: Path) -> Space:
    """The space in a TOML file. Raises: OSError; ValueError: it is none (one line)."""
    try:
        return space_of(tomllib.loads(path.read_text(encoding="utf-8")))
    except UnicodeDecodeError:
        raise ValueError("is no text") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"is no TOML: {' '.join(str(error).split())}") from None


def sweep(texts: Sequence[str]) -> Space:
    """A space from texts such as `num_warps=4,8` or `matmul.BLOCK=64,128`. Raises: ValueError: one is none of that."""
    given: dict[str, Any] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        kernel, dot, parameter = name.strip().rpartition(".")
        if not equals or not values.strip() or not parameter.isidentifier() or bool(dot) != kernel.isidentifier():
            raise ValueError(f"{text!r}: must be NAME=VALUE,VALUE or KERNEL.NAME=VALUE,VALUE")
        of_kernel = given.setdefault(kernel, {}) if kernel else given
        if parameter in of_kernel:
            raise ValueError(f"{text!r}: {name.strip()} is given twice; give it once")
        of_kernel[parameter] = [_value(part.strip()) for part in values.split(",")]
    return space_of(given)


def _value(text: str) -> Value:
    """A value as the command line has it: a whole number, a number, True or False, else a text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _values(name: str, values: Any) -> tuple[Value, ...]:
    several = tuple(values) if isinstance(values, list) else (values,)
    if not several or not all(isinstance(value, bool | int | float | str) for value in several):
        raise ValueError(f"{name} = {values!r}: must be a list of numbers, texts, true or false")
    if len(set(map(repr, several))) < len(several):
        raise ValueError(f"{name} = {values!r}: has a value twice; give it once")
    if name.rpartition(".")[2] in OPTIONS and not all(type(value) is int and value > 0 for value in several):
        raise ValueError(f"{name} = {values!r}: must be whole numbers of 1 or more")
    return several


def _allowed(constants: Collection[str]) -> str:
    return f"must be one of {', '.join([*sorted(constants), *OPTIONS])}"
