"""Kernels that come as Triton's first IR: a source that the compiler takes in the place of a Python function.

The same IR makes the same machine code, byte for byte, whoever wrote it down.
"""

import hashlib
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import Language
from triton.compiler import ASTSource

SOURCE = re.compile(r'"[^"]*":(\d+):\d+')
NAMED = re.compile(r"#loc\d*\b")


class WrittenDown(ASTSource):
    """Triton's first IR as text.

    Args:
        job: `ttir`: the text; `name`: of the kernel; `signature`: pairs of parameter and type; `gluon`: whether it is
            written in Gluon, whose first IR is of a later stage.
    """

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.text, self.name, self.signature = job["ttir"], job["name"], dict(job["signature"])
        self.ext, self.language = ("ttgir", Language.GLUON) if job["gluon"] else ("ttir", Language.TRITON)
        self.constants: dict[Any, Any] = {}
        self.attrs: dict[Any, Any] = {}
        self.fn = None

    def hash(self) -> str:
        """What Triton's own cache knows it by."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def make_ir(self, *asked: Any) -> Any:
        """The IR, read back. Args: asked: other things for each version of Triton, a context at the end."""
        context = asked[-1]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"kernel.{self.ext}"
            path.write_text(self.text, encoding="utf-8")
            module = ir.parse_mlir_module(str(path), context)
        module.context = context
        return module


def line_of(location: str, ir: str) -> int:
    """Line of the source that a location of the IR leads to; 0 where it leads nowhere. Args: location: e.g. `#loc3`."""
    places = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", ir, re.M))
    while (text := places.pop(location, None)) is not None:
        if match := SOURCE.search(text):
            return int(match[1])
        if inner := NAMED.search(text):
            location = inner[0]
    return 0
