"""A launch of a kernel in a cubin, as options of the command line."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from .groups import Group, option
from .output import BadInput

if TYPE_CHECKING:
    from ..kernels.given.launch import Launch

EXTENTS = re.compile(r"\d+([x,]\d+){0,2}")
SHAPE = "X[xY[xZ]]"
OPTIONS = frozenset(("--cubin", "--kernel", "--grid", "--block", "--smem", "--cluster", "--arg"))


def extents(name: str, text: str) -> tuple[int, ...]:
    """Extents along x, y, z. Args: name: of the option. Raises: BadInput: they are none."""
    if not EXTENTS.fullmatch(text):
        raise BadInput(f"--{name} {text!r}: must be such as 132, or 64x64x1")
    return tuple(int(size) for size in re.split("[x,]", text))


class CubinOptions(Group):
    """A launch in plain data."""

    cubin: Path | None = option(None, "Take a kernel of a cubin, e.g. of nvcc -cubin, in place of a target.", "FILE")
    kernel: str = option("", "Its name in the cubin, where that holds several.", "NAME")
    grid: str | None = option(None, "CTAs of the grid.", SHAPE)
    block: str | None = option(None, "Threads of a CTA.", SHAPE)
    smem: int | None = option(None, "Dynamic shared memory of a CTA in bytes.  [default: 0]", least=0)
    cluster: str | None = option(None, "CTAs of a cluster.  [default: 1]", SHAPE)
    arg: list[str] | None = option(
        None,
        "An argument, in the order of the parameters, e.g. x=tensor:fp16[64,4096], n=4096, d=tma:x,box=64x64.",
        "NAME=VALUE",
    )

    def launch(self, target: str | None) -> "Launch | None":
        """The launch; None: a target is named. Raises: BadInput: neither is, or both are."""
        given = {"kernel": self.kernel, "grid": self.grid, "block": self.block, "smem": self.smem, "arg": self.arg}
        if self.cubin is None:
            if name := next((name for name, value in {**given, "cluster": self.cluster}.items() if value), ""):
                raise BadInput(f"--{name}: is of a kernel in a cubin: give --cubin FILE")
            if target is None:
                raise BadInput("name FILE.py:FUNCTION, FILE.toml, or --cubin FILE")
            return None
        if target is not None:
            raise BadInput(f"{target} and --cubin: each names what is launched; give one")
        if not self.grid or not self.block:
            raise BadInput(f"--{'block' if self.grid else 'grid'}: is missing: --cubin needs --grid and --block")
        from ..kernels.given.launch import Launch

        pairs = [text.partition("=") for text in self.arg or ()]
        if bad := [name for name, equals, _ in pairs if not equals or not name.strip()]:
            raise BadInput(f"--arg {bad[0]!r}: must be NAME=VALUE, e.g. x=tensor:fp16[64,4096]")
        return Launch(
            cubin=self.cubin,
            kernel=self.kernel,
            grid=extents("grid", self.grid),
            block=extents("block", self.block),
            smem=self.smem or 0,
            cluster=extents("cluster", self.cluster or "1"),
            args={name.strip(): value for name, _, value in pairs},
        )
