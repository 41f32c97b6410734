"""The picture of docs/your-kernel.md: memory chart and limits of its second kernel, as SVG.

python tests/support/doc_picture.py     write it anew
"""

import re
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.figure import Figure
from tilesight.kernels.capture.file import Asked, capture_calls
from tilesight.simulator.device.device import load_device
from tilesight.simulator.display.render import percent
from tilesight.simulator.prediction.kernel_row import KernelRow
from tilesight.simulator.prediction.kernels import Request
from tilesight.simulator.report.draw import STYLE
from tilesight.simulator.report.kernels.pictures import LIMITS_TITLE, draw_bars, draw_memory, limit_bars

from tilesight.predicting import predict_calls

DOCS = Path(__file__).parents[2] / "docs"
FILE = DOCS / "your-kernel.svg"
SVG: Any = STYLE | {"svg.hashsalt": "your-kernel"}


def row() -> KernelRow:
    """The launch of `fused.py`, as that page has it."""
    code = re.search(r"Write `fused\.py`:\n\n```python\n(.*?)```", (DOCS / "your-kernel.md").read_text("utf-8"), re.S)
    assert code
    with TemporaryDirectory() as folder:
        path = Path(folder, "fused.py")
        path.write_text(code[1], "utf-8")
        (recorded,) = capture_calls(f"{path}:run", Asked(device="h200", timeout_s=120.0))
    return predict_calls(recorded.calls, Request(device=load_device("h200"), name="h200")).rows[0]


def drawn(launch: KernelRow) -> bytes:
    """The picture."""
    with matplotlib.rc_context(SVG):
        figure = Figure(figsize=(11.2, 4.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        draw_memory(left, {}, launch)
        draw_bars(right, {}, limit_bars(launch), LIMITS_TITLE, percent, 1.0)
        stream = BytesIO()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def words(svg: bytes) -> list[str]:
    """Texts of a picture, in order; ticks and all."""
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


if __name__ == "__main__":
    FILE.write_bytes(drawn(row()))
