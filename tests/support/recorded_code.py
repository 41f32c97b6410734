"""Machine code of a dozen kernels of the library, recorded, so that the way from code to costs needs no compiler.

`python tests/support/recorded_code.py` compiles them anew and writes `recorded/code.json.xz` (needs torch and triton);
it refuses a Triton that makes other code than the library is of.
"""

import json
import lzma
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.launch.program import Code, Launch, Resources
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import launches_of

FILE = Path(__file__).parents[1] / "recorded" / "code.json.xz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One launch. Args: device: its name; schedule; name: of the launch; problem; options: of the configuration."""

    device: str
    schedule: str
    name: str
    problem: AttentionProblem
    options: dict[str, Any]

    @property
    def gpu(self) -> Device:
        return load_device(self.device)

    @property
    def launch(self) -> Launch:
        """Without code."""
        config = find_schedule(self.schedule).config(**self.options)
        launches = launches_of(self.problem, self.schedule, config, self.gpu)
        return next(launch for launch in launches if launch.name == self.name)


def wanted() -> Iterator[Kernel]:
    """Launches that the library keeps the kernels of, so that their costs are known: with and without specialised
    warps, loops, masks and spilled registers. Figures of an architecture are kept for the first of its devices; others
    share them where their L2 is as far."""

    def kernel(device: str, name: str, schedule: str = "", causal: bool = False, **options: Any) -> Kernel:
        sizes = {"batch": 4, "heads": 32, "seqlen_q": 4096, "seqlen_k": 4096, "head_dim": 64}
        sizes |= {size: options.pop(size) for size in (*sizes, "kv_heads") if size in options}
        problem = AttentionProblem(**sizes, causal=causal)
        return Kernel(device=device, schedule=schedule or name, name=name, problem=problem, options=options)

    wide, two, deep = {"head_dim": 128}, {"num_warps": 8}, {"num_stages": 3}
    split = {"warp_split": "q"}
    yield kernel("h100-pcie", "flash2", block_m=64, block_n=64, **deep, **split)
    yield kernel("h100-pcie", "flash2", block_m=128, block_n=64, causal=True, **wide, **two, **split)
    yield kernel("h100-pcie", "flash2", block_m=128, block_n=128, num_warps=4, **split)
    yield kernel("h100-pcie", "flash2_tma", block_m=64, block_n=128, causal=True, **deep)
    yield kernel("h100-pcie", "flash2_tma", block_m=128, block_n=64, num_stages=2, warp_specialize=1, **wide)
    yield kernel("h100-pcie", "flash2_tma", block_m=128, block_n=128, num_stages=2, **two)
    yield kernel("h100-pcie", "scores", "naive", block_m=128, block_n=64, **deep)
    yield kernel("h100-pcie", "output", "naive", block_m=64, block_n=32, **wide, **deep)
    yield kernel("h100-pcie", "softmax", "naive", batch=32, heads=1, seqlen_q=2048, seqlen_k=2048)
    yield kernel("h100-pcie", "mask", "unfused", batch=32, heads=1, seqlen_q=2048, seqlen_k=2048, causal=True)
    yield kernel("a100-sxm-40gb", "flash2", block_m=64, block_n=64, causal=True, **deep, **split)
    yield kernel("a100-sxm-40gb", "scores", "naive", block_m=64, block_n=128, **two, **wide)
    # Kept because they were measured.
    short = {"batch": 2, "heads": 64, "kv_heads": 16, "seqlen_q": 1024, "seqlen_k": 1024}
    yield kernel("h100-pcie", "flash1", block_m=128, block_n=64, num_stages=4, causal=True, **short, **split)
    ragged = {"heads": 64, "seqlen_q": 1000, "seqlen_k": 1000}
    yield kernel("h100-pcie", "flash1", block_m=64, block_n=256, num_stages=4, **ragged, **split)


def recorded() -> list[tuple[Kernel, Launch]]:
    """The kernels, each with a launch that has its code."""
    pairs = []
    for entry in json.loads(lzma.decompress(FILE.read_bytes())):
        code = Code(sass=entry["sass"], constants={int(key): word for key, word in entry["constants"].items()})
        resources = Resources(**entry["resources"], origin="compiled", code=code)
        kernel = Kernel(**{**entry["kernel"], "problem": AttentionProblem(**entry["kernel"]["problem"])})
        pairs.append((kernel, replace(kernel.launch, resources=resources)))
    return pairs


def recorded_listings() -> list[str]:
    """Their machine code alone."""
    return [entry["sass"] for entry in json.loads(lzma.decompress(FILE.read_bytes()))]


def main() -> None:
    """Compile, compare with the library, write."""
    from support.compiling import compile_launch
    from tilesight.simulator.library.lookup import find_kernel

    entries = []
    for kernel in wanted():
        launch = kernel.launch
        resources = compile_launch(launch, kernel.gpu, code=True).resources
        kept = find_kernel(launch, kernel.gpu)
        names = ("registers_per_thread", "smem_bytes_per_cta", "spilled_bytes_per_thread", "warps_per_cta")
        numbers = {name: getattr(resources, name) for name in names}
        if resources is None or resources.code is None or kept is None or kept.resources != numbers:
            raise SystemExit(f"{kernel}: compiles to {numbers}, and the library has {kept and kept.resources}")
        code = resources.code
        entries.append(
            {"kernel": asdict(kernel), "resources": numbers, "sass": code.sass, "constants": dict(code.constants)}
        )
    FILE.write_bytes(lzma.compress(json.dumps(entries).encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
