"""Figures of a user's kernels against what is known without a model: operations, sizes of tensors, the roofline."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package

from tilesight.cli.main import main

if missing_package() is None:
    import torch
    from tilesight.simulator.prediction.kernels import KernelsPrediction
    from users_kernels import elementwise, first_visits, histograms, layer_norm, matmul

    import tilesight

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))

COPIES = """import torch
import triton
import triton.language as tl


@triton.jit
def copied(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i, mask=i < n), mask=i < n)


@triton.autotune([triton.Config({"BLOCK": block}) for block in (512, 1024)], key=["n"])
@triton.jit
def doubled(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, 2 * tl.load(X + i, mask=i < n), mask=i < n)


def run():
    n = 1 << 26
    x, y = torch.empty(n, device="cuda", dtype=torch.float16), torch.empty(n, device="cuda", dtype=torch.float16)
    copied[(n // 1024,)](x, y, n, BLOCK=1024)
    doubled[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](y, x, n)
"""


def _predicted(launch, *arguments, **options) -> "KernelsPrediction":
    with tilesight.capture() as launches:
        launch(*arguments, **options)
    return tilesight.predict(launches, l2="cold")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A user's file."""
    path = tmp_path / "copies.py"
    path.write_text(COPIES, encoding="utf-8")
    return path


def test_a_product_counts_two_operations_for_each_of_its_triples() -> None:
    """2 M N K, and the SMs load A once for each column of tiles and B once for each row of them."""
    n = 1024
    (row,) = _predicted(matmul, n).rows
    assert row.traffic.matmul_flop == row.traffic.executed_flop == 2 * n**3
    assert row.to_dict()["traffic"]["matmul_flop_per_s"] == 2 * n**3 / row.traffic.time_s
    times = {tensor.name: tensor.times_loaded for tensor in row.ceiling.tensors}
    assert times == {"A": n / 128, "B": n / 128, "C": 0}
    assert row.ceiling.compulsory_read_bytes == 2 * 2 * n**2


def test_operations_of_uneven_visits_are_counted() -> None:
    """A product on a side that only the first visit takes counts there alone."""
    with tilesight.capture() as launches:
        flop = first_visits(diagonal=True, ctas=64)
    (row,) = tilesight.predict(launches).rows
    assert row.ceiling.flop == flop


def test_a_copy_reads_its_tensor_once_and_writes_the_other_once(file: Path) -> None:
    """At HBM no more than it must, so that the roofline's bytes are the two sizes, less what L2 keeps."""
    namespace: dict = {}
    exec(compile(COPIES, str(file), "exec"), namespace)
    n, size = 1 << 26, 1 << 27
    x, y = (torch.empty(n, device="meta", dtype=torch.float16) for _ in range(2))
    (row,) = _predicted(namespace["copied"][(n // 1024,)], x, y, n, BLOCK=1024).rows
    tensors = {tensor.name: tensor for tensor in row.ceiling.tensors}
    assert (tensors["X"].loaded_bytes, tensors["X"].stored_bytes, tensors["X"].size_bytes) == (size, 0, size)
    assert (tensors["Y"].loaded_bytes, tensors["Y"].stored_bytes, tensors["Y"].size_bytes) == (0, size, size)
    assert row.traffic.hbm_read_bytes == row.ceiling.compulsory_read_bytes == size
    assert row.ceiling.compulsory_write_bytes == row.traffic.hbm_write_bytes <= size
    assert row.ceiling.limit == "hbm"
    assert 1.0 <= row.roofline_multiple < 1.3


def test_no_launch_beats_its_roofline() -> None:
    """Whatever kind of kernel it is, and whatever those before it left in L2."""
    with tilesight.capture() as launches:
        histograms(1 << 18)
        elementwise(1 << 20)
        elementwise(1 << 20)
        layer_norm(512)
        matmul(512)
    rows = tilesight.predict(launches).rows
    assert len(rows) == 8
    assert all(row.roofline_multiple >= 1.0 or not row.ceiling.bound_s for row in rows)
    assert all(row.ceiling.compulsory_bytes <= row.traffic.hbm_bytes for row in rows)


class _Page(HTMLParser):
    """Ids of pictures, and lines of source with their heat."""

    def __init__(self) -> None:
        super().__init__()
        self.pictures: list[str] = []
        self.hot = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if values.get("class") == "picture":
            self.pictures.append(values["id"])
        self.hot += tag == "td" and "heat" in (values.get("class") or "") and "left" in values["class"]


def test_the_page_has_pictures_and_source_of_the_longest_launches(file: Path, tmp_path: Path) -> None:
    """Memory chart and limits of each, configurations of the autotuned one; lines with time are shaded."""
    path = tmp_path / "page.html"
    assert main(["predict", f"{file}:run", "--html", str(path)]) == 0
    page = _Page()
    page.feed(path.read_text("utf-8"))
    kinds = [name.partition("-")[0] for name in page.pictures]
    assert sorted(kinds) == ["configurations", "limits", "limits", "memory", "memory"]
    assert page.hot >= 2
    assert "134 MB" in path.read_text("utf-8")
