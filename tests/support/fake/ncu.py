"""A stand-in for Nsight Compute: answers as told by a JSON file beside it, and keeps its command line there."""

import json
import sys
import time
from pathlib import Path

PROGRAM = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from ncu import main
main(__file__)
"""


QUERY = """Device NVIDIA H200 (GH100)
------------------------------------------------------------------ ------- ---- ---------------------------
Metric Name                                                        Type    Unit Metric Description
------------------------------------------------------------------ ------- ---- ---------------------------
dram__bytes_read                                                   Counter byte # of bytes read from DRAM
dram__bytes_write                                                  Counter byte # of bytes written to DRAM
gpu__time_duration                                                 Counter ns   incremental duration
l1tex__m_xbar2l1tex_read_bytes                                     Counter byte # of bytes read from L2
lts__t_sectors_srcunit_ltcfabric                                   Counter sector # of LTS sectors
lts__t_sectors_srcunit_tex_op_read                                 Counter sector # of LTS sectors
sm__cycles_elapsed                                                 Counter cycle # of cycles elapsed on SM
smsp__inst_executed                                                Counter inst # of warp instructions
"""
NAMES = (
    "dram__bytes_read.sum",
    "gpu__time_duration.sum",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_dynamic",
    "launch__shared_mem_per_block_static",
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "sm__cycles_elapsed.max",
)
UNITS = ("byte", "ns", "register/thread", "byte/block", "byte/block", "sector", "cycle")
FACTS = '"0","1","python3","127.0.0.1","flash2_kernel","1","7","(128, 1, 1)","(4096, 1, 1)","0","9.0"'


def printed(*values: str, units: tuple[str, ...] = UNITS) -> str:
    """A table as `ncu --csv --page raw --print-units base` prints it, among its remarks."""
    columns = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"]
    columns += ["Block Size", "Grid Size", "Device", "CC", *NAMES]
    head = ",".join(f'"{name}"' for name in columns)
    unit = ",".join(f'"{name}"' for name in (*[""] * 11, *units))
    row = ",".join([FACTS, *(f'"{value}"' for value in values)])
    return f"==PROF== Connected to process 1 (/usr/bin/python3)\n{head}\n{unit}\n{row}\n"


VALUES = ("201,347,584", "1,458,720", "192", "49,152", "0", "86,718,648", "2,611,044")


def install(folder: Path, **behaviour: object) -> Path:
    """Put an executable `ncu` into a folder.

    Args:
        behaviour: `version`, `query` and `table`: what it prints; `status`: how it ends; `sleep_s`; `stderr`.
    """
    program = folder / "ncu"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    (folder / "behaviour.json").write_text(json.dumps(behaviour))
    return program


def command_of(program: Path) -> list[str]:
    """The command line of the last counting run."""
    words: list[str] = json.loads((program.parent / "command.json").read_text())
    return words


def main(program: str) -> None:
    """Answer one call."""
    folder = Path(program).parent
    behaviour = json.loads((folder / "behaviour.json").read_text())
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(behaviour.get("version", "Version 2025.3.1.0 (build 36398880) (public-release)"))
        return
    if arguments == ["--query-metrics"]:
        print(behaviour.get("query", ""))
        return
    (folder / "command.json").write_text(json.dumps(arguments))
    time.sleep(behaviour.get("sleep_s", 0))
    Path(arguments[arguments.index("--log-file") + 1]).write_text(behaviour.get("table", ""))
    print(behaviour.get("stderr", ""), file=sys.stderr)
    sys.exit(behaviour.get("status", 0))
