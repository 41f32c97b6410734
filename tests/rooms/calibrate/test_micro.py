"""The microbenchmarks compile, and the machine code still holds, in its loop, the instruction that each measures."""

import re
import shutil
import subprocess
from collections import Counter
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import pytest
from tilesight.validate.calibrate.micro import pipes
from tilesight.validate.calibrate.micro.compile import GpuFault, NoGpu, compile_cubin, micro_source, target_of

FILES = ("hopper", "launch", "memory", "pipes")
TARGETS = [(file, target) for file in FILES for target in ("sm_80", "sm_90a") if (file, target) != ("hopper", "sm_80")]
INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)[.\w]*([^;]*);")
STREAMS = [f"wgmma_f16_n{columns}_{source}" for columns in pipes.COLUMNS for source in pipes.SOURCES]
OPCODES = {
    "ffma": "FFMA",
    "fmul": "FMUL",
    "fmnmx": "FMNMX",
    "lop3": "LOP3",
    "imad": "IMAD",
    "ex2": "MUFU",
    "shuffle": "SHFL",
    "pack": "F2FP",
}
"""Name of a kernel, before its first underscore -> SASS opcode."""
MOST_THREADS = {
    "gather": 1024,
    "scatter": 1024,
    "load": 512,
    **{name: 1024 for name in (*pipes.PIPES, "smem_rate", "barriers")},
    **{f"beside_{source}_{name}": 384 for source in pipes.SOURCES for name in pipes.BESIDE},
    **{f"{name}_rate": 512 for name in pipes.MMAS if name != "mma_e4m3"},
}
"""Kernel -> threads of its largest launch; others are launched with 256 or fewer."""
REGISTERS_PER_SM, REGISTERS_A_TIME = 65536, 8
Loops = dict[str, list[Counter[str]]]


def _cuobjdump() -> str | None:
    installed = shutil.which("cuobjdump")
    spec = find_spec("triton")
    if installed or spec is None or spec.origin is None:
        return installed
    bundled = Path(spec.origin).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    return str(bundled) if bundled.exists() else None


def _compiler() -> str | None:
    """Which compiler is here: `nvcc`, `nvrtc` or none."""
    if shutil.which("nvcc"):
        return "nvcc"
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        return None
    try:
        compile_cubin(nvrtc, "", "empty.cu", "sm_80")
    except (GpuFault, NoGpu):
        return None
    return "nvrtc"


needs_compiler = pytest.mark.skipif(_compiler() is None, reason="neither nvcc nor NVRTC is here")
needs_sass = pytest.mark.skipif(
    _compiler() is None or _cuobjdump() is None, reason="a CUDA compiler or cuobjdump is missing"
)


def _cubin(file: str, target: str, folder: Path) -> tuple[Path, str]:
    """A compiled file and what the compiler remarked."""
    cubin = folder / f"{file}.{target}.cubin"
    if _compiler() == "nvrtc":
        from cuda.bindings import nvrtc

        cubin.write_bytes(compile_cubin(nvrtc, micro_source(file), f"{file}.cu", target))
        return cubin, ""
    source = resources.files("tilesight.validate.calibrate.micro") / f"{file}.cu"
    code = f"-gencode=arch=compute_{target[3:]},code={target}"
    command = ["nvcc", code, "-cubin", "-Xptxas", "-v", "-o", str(cubin), str(source)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return cubin, finished.stderr


@pytest.fixture(scope="module")
def cubins(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All files, compiled for Hopper."""
    folder = tmp_path_factory.mktemp("cubins")
    return [_cubin(file, "sm_90a", folder)[0] for file in FILES]


@pytest.fixture(scope="module")
def loops(cubins: list[Path]) -> Loops:
    """Kernel -> opcodes of each of its innermost loops, compiled for Hopper."""
    opcodes_by_kernel: Loops = {}
    for cubin in cubins:
        command = [str(_cuobjdump()), "-sass", str(cubin)]
        sass = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for text in re.split(r"\n\s*Function : ", sass)[1:]:
            opcodes_by_kernel[text.split("\n")[0].strip()] = _loop_opcodes(text)
    return opcodes_by_kernel


def _loop_opcodes(sass: str) -> list[Counter[str]]:
    """Opcodes of each loop, from the target of a backward branch to the branch; of nested loops only the innermost.

    A NOP is no instruction of ours: it waits for a result that takes longer than 15 cycles.
    """
    code = [(int(at, 16), name, rest) for at, name, rest in INSTRUCTION.findall(sass)]
    spans = []
    for at, name, rest in code:
        target = re.search(r"0x([0-9a-f]+)", rest)
        if name == "BRA" and target and int(target[1], 16) < at:
            spans.append((int(target[1], 16), at))
    inner = [(a, b) for a, b in spans if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans)]
    return [Counter(name for at, name, _ in code if a <= at <= b and name != "NOP") for a, b in inner]


def most(loops: list[Counter[str]], opcode: str) -> Counter[str]:
    """The loop that has most of an opcode."""
    return max(loops, key=lambda loop: loop[opcode])


@needs_compiler
@pytest.mark.parametrize(("file", "target"), TARGETS)
def test_every_file_compiles_without_remark(file: str, target: str, tmp_path: Path) -> None:
    """No spill, and no remark that wgmma is serialised: either would be measured in place of the hardware."""
    cubin, said = _cubin(file, target, tmp_path)
    assert cubin.stat().st_size > 1000
    assert not re.findall(r"(?:C75\d\d|warning|[1-9]\d* bytes spill).*", said)


@needs_sass
def test_every_kernel_has_registers_for_its_threads(cubins: list[Path]) -> None:
    """A launch of more registers than an SM has fails, and takes its measurement with it."""
    registers: dict[str, int] = {}
    for cubin in cubins:
        command = [str(_cuobjdump()), "--dump-resource-usage", str(cubin)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        registers |= {name: int(count) for name, count in re.findall(r"Function (\w+):\s+REG:(\d+)", printed)}
    assert set(MOST_THREADS) <= set(registers)
    taken = {
        name: -(-count // REGISTERS_A_TIME) * REGISTERS_A_TIME * MOST_THREADS.get(name, 256)
        for name, count in registers.items()
    }
    assert {name: count for name, count in taken.items() if count > REGISTERS_PER_SM} == {}


@needs_sass
@pytest.mark.parametrize("name", [name for name in pipes.PIPES if name != "issue_rate"])
def test_a_pipe_kernel_repeats_its_instruction(name: str, loops: Loops) -> None:
    """The loop has exactly as many of the measured opcode as a turn is divided by, and next to nothing else."""
    opcode = OPCODES[name.split("_")[0]]
    loop = most(loops[name], opcode)
    assert loop[opcode] == pipes.PIPES[name]
    assert loop.total() - loop[opcode] <= 4, loop


@needs_sass
def test_the_issue_kernel_mixes_two_pipes(loops: Loops) -> None:
    """Two FFMA to one LOP3, in all as many as a turn is divided by."""
    loop = most(loops["issue_rate"], "FFMA")
    assert (loop["FFMA"], loop["LOP3"]) == (44, 22)
    assert loop.total() - 66 <= 4
    assert pipes.PIPES["issue_rate"] == 66


@needs_sass
@pytest.mark.parametrize("name", ["mma_f16_rate", "mma_f16_latency", "mma_bf16_rate", "mma_tf32_rate"])
def test_an_mma_kernel_repeats_hmma(name: str, loops: Loops) -> None:
    """One HMMA per mma.sync: nothing was split, merged or hoisted."""
    loop = most(loops[name], "HMMA")
    assert loop["HMMA"] == pipes.MMAS_A_TURN
    assert loop.total() - loop["HMMA"] <= 4, loop


@needs_sass
@pytest.mark.parametrize("name", [*STREAMS, "wgmma_bf16_n128_smem", "wgmma_tf32_n128_smem", "wgmma_e4m3_n128_smem"])
def test_a_wgmma_stream_keeps_one_group_in_flight(name: str, loops: Loops) -> None:
    """Eight products and one wait a turn: a wait after each would measure latency in place of the rate."""
    opcode = "QGMMA" if "e4m3" in name else "HGMMA"
    loop = most(loops[name], opcode)
    assert loop[opcode] == pipes.WGMMAS_A_TURN
    assert loop["WARPGROUP"] == 2, loop


@needs_sass
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("columns", pipes.COLUMNS)
@pytest.mark.parametrize("source", pipes.SOURCES)
def test_a_wgmma_wait_loop_has_its_products(count: int, columns: int, source: str, loops: Loops) -> None:
    """One arrive, the products, one wait."""
    loop = most(loops[f"wgmma_wait{count}_n{columns}_{source}"], "HGMMA")
    assert (loop["HGMMA"], loop["WARPGROUP"]) == (count, 2), loop


@needs_sass
@pytest.mark.parametrize("source", pipes.SOURCES)
@pytest.mark.parametrize("name", pipes.BESIDE)
def test_both_sides_of_a_beside_kernel_are_there(name: str, source: str, loops: Loops) -> None:
    """The tensor loop and the other instruction's loop, each whole."""
    mine = loops[f"beside_{source}_{name}"]
    assert most(mine, "HGMMA")["HGMMA"] == pipes.WGMMAS_A_TURN
    opcode = OPCODES[name.split("_")[0]]
    loop = most(mine, opcode)
    assert loop[opcode] == pipes.BESIDE[name]
    assert loop.total() - loop[opcode] <= 4, loop


@needs_sass
@pytest.mark.parametrize(
    ("name", "opcode", "count"),
    [
        ("stream_read", "LDG", 8),
        ("stream_write", "STG", 8),
        ("stream_copy", "LDG", 8),
        ("stream_copy", "STG", 8),
        ("gather", "LDG", 4),
        ("scatter", "STG", 1),
        ("chase_l1", "LDG", 16),
        ("chase_l2", "LDG", 16),
        ("chase_smem", "LDS", 16),
        ("smem_rate", "LDS", 32),
        ("barriers", "BAR", 16),
        ("load", "HGMMA", 8),
        ("load", "LDGSTS", 8),
    ],
)
def test_a_memory_loop_has_its_accesses(name: str, opcode: str, count: int, loops: Loops) -> None:
    """Loads and stores that the compiler removed or merged would not be measured."""
    assert most(loops[name], opcode)[opcode] == count, loops[name]


def test_hopper_alone_gets_its_own_target() -> None:
    """Wgmma needs sm_90a; other architectures have no `a` that anything here needs."""
    assert [target_of(name) for name in ("8.0", "8.9", "9.0", "12.0")] == ["sm_80", "sm_89", "sm_90a", "sm_120"]
