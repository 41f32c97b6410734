"""Front ends of other compilers: launches on tensors without data become launches of their cubins."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from support.given_cubins import cubin
from tilesight.kernels.front_ends import catcher
from tilesight.simulator.refusal import UserError

import tilesight
from tilesight import Launch
from tilesight.cli.main import main as run

N = 4096


@pytest.fixture(name="dsl")
def _dsl(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A front end that launches kernels of our cubins, as the catcher has the real ones."""
    dsl: Any = ModuleType("dsl")
    dsl.launch = lambda *_: pytest.fail("is not caught")

    @contextmanager
    def caught(catching: Any) -> Iterator[None]:
        def launch(kernel: str, grid: Any, block: int, **parameters: object) -> None:
            catching.catch(f"my_{kernel}", (cubin("basic"), kernel), (grid, (block,)), [*parameters.items()])

        before, dsl.launch = dsl.launch, launch
        yield
        dsl.launch = before

    monkeypatch.setitem(sys.modules, "dsl", dsl)
    monkeypatch.setitem(sys.modules, f"{catcher.__package__}.caught_dsl", SimpleNamespace(caught=caught))  # type: ignore[arg-type]
    monkeypatch.setitem(catcher.FRONT_ENDS, "dsl", "caught_dsl")
    return dsl


def test_what_is_launched_is_caught(dsl: Any) -> None:
    """Tensors keep their identity: what one launch writes the next one finds in L2."""
    with tilesight.capture() as launches:
        x, y, z = (torch.empty(N, device="cuda") for _ in range(3))
        dsl.launch("add", (N // 256,), 256, x=x, y=y, z=z, n=N)
        dsl.launch("add", (N // 256 - 1,), 256, a=z, b=x[64:], c=z, n=N - 256)
    first, second = launches
    assert isinstance(first, Launch) and isinstance(second, Launch)
    assert dict(first.args) == {name: f"tensor:fp32[{N}]" for name in "xyz"} | {"n": N}
    assert dict(second.args) == {"a": "pointer:z+0", "b": "pointer:x+256", "c": "pointer:z+0", "n": N - 256}
    prediction = tilesight.predict(launches)
    assert [row.name for row in prediction.rows] == ["my_add", "my_add"]
    assert [row.requested_bytes for row in prediction.rows] == [12 * N, 12 * (N - 256)]
    assert prediction.rows[1].traffic.hbm_read_bytes == 0


def test_data_that_are_given_decide_addresses(dsl: Any) -> None:
    """A gather would be refused."""
    with tilesight.capture() as launches:
        x, y = (torch.empty(N, device="cuda") for _ in range(2))
        at = torch.arange(N, dtype=torch.int32).flip(0)
        dsl.launch("gather", (N // 256,), 256, x=x, y=y, at=at, n=N)
    (row,) = tilesight.predict(launches).rows
    assert row.refused is None and row.known_accesses == row.accesses == 3


def test_what_is_not_recorded_is_told(dsl: Any) -> None:
    """Memory that begins elsewhere would be taken for all of it."""
    with tilesight.capture(), pytest.raises(UserError, match="argument x: a view that begins behind"):
        dsl.launch("add", (1,), 64, x=torch.empty(N, device="cuda")[64:])


def test_other_launches_are_no_recording(dsl: Any) -> None:
    """A list of both kinds has no memory in common."""
    with tilesight.capture() as launches:
        dsl.launch("add", (1,), 64, x=torch.empty(64, device="cuda"))
    with pytest.raises(ValueError, match="all of one kind"):
        tilesight.predict([*launches, "add"])  # type: ignore[list-item]


def test_files_that_import_a_front_end_are_known(dsl: Any) -> None:
    """It would be loaded for every file, or for none."""
    begun = Path(__file__).read_text("utf-8")
    with tilesight.capture() as launches:
        assert launches.front_ends
        launches.front_ends.begin(begun)
        dsl.launch("add", (1,), 64, x=torch.empty(64, device="cuda"))
    assert len(launches) == 1


FILES = {
    "numba.cuda": """
import numpy as np
from numba import cuda

@cuda.jit
def add(x, y, z, n):
    i = cuda.grid(1)
    if i < n:
        z[i] = x[i] + y[i]

def work():
    x, y = (cuda.to_device(np.zeros(1 << 16, np.float32)) for _ in range(2))
    z = cuda.device_array(1 << 16, np.float32)
    add[256, 256](x, y, z, 1 << 16)
    cuda.synchronize()
""",
    "cuda.tile": """
import cuda.tile as ct
import torch

@ct.kernel
def add(x, y, z, TILE: ct.Constant[int]):
    i = ct.bid(0)
    a = ct.load(x, index=(i,), shape=(TILE,))
    b = ct.load(y, index=(i,), shape=(TILE,))
    ct.store(z, index=(i,), tile=a + b)

def work():
    x, y, z = (torch.empty(1 << 16, device="cuda") for _ in range(3))
    ct.launch(torch.cuda.current_stream(), (64,), add, (x, y, z, 1024))
""",
    "helion": """
import helion
import helion.language as hl
import torch

@helion.kernel(config=helion.Config(block_sizes=[1024], num_warps=4), static_shapes=True)
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = x[tile] + y[tile]
    return out

def work():
    add(*(torch.empty(1 << 16, device="cuda") for _ in range(2)))
""",
}


@pytest.mark.parametrize("module", FILES)
def test_front_ends_are_recorded(module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where they are installed: an addition of 2^16 floats, whose bytes are known."""
    package = module.replace("numba.cuda", "numba_cuda")  # numba has an older target of that name
    pytest.importorskip(package, reason=f"{package} is not installed")
    (tmp_path / "mine.py").write_text(FILES[module])
    assert run(["predict", f"{tmp_path / 'mine.py'}:work", "--l2", "cold"]) == 0
    said = capsys.readouterr().out
    assert "1 launch on h200" in said and "524 kB" in said
