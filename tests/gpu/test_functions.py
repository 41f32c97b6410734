"""`validate FILE.py:FUNCTION` on a GPU: the kernels of docs/your-kernel.md, predicted beside counted and timed."""

import json
import re
from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_gpu

from tilesight.cli.main import main

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(missing_gpu() is not None, reason=str(missing_gpu()))]
PAGE = Path(__file__).parents[2] / "docs/your-kernel.md"
FILES = dict(re.findall(r"Write `(\w+\.py)`:\n\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))
EQUAL = ("registers_per_thread", "smem_bytes_per_cta", "spilled_bytes_per_thread", "executed_instructions")
MEMORY = ("smem_fill_bytes", "hbm_read_bytes", "hbm_write_bytes")


@pytest.mark.parametrize(("file", "kernels"), [("norm.py", ["add", "rms_norm"]), ("fused.py", ["add_rms_norm"])])
@pytest.mark.parametrize("l2", ["cold", "warm"])
def test_the_kernels_of_the_guide_are_what_was_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, kernels: list[str], l2: str
) -> None:
    """Compiled the same, the same instructions; bytes and times within the limits that `validate` passes."""
    path = tmp_path / file
    path.write_text(FILES[file], encoding="utf-8")
    assert main(["validate", f"{path}:run", "--l2", l2, "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert [launch["name"] for launch in compared["launches"]] == kernels
    for launch in compared["launches"]:
        quantities = launch["quantities"]
        assert {quantities[name]["verdict"] for name in EQUAL[:3]} == {"pass"}, launch["name"]
        assert quantities["replayed_time_s"]["verdict"] == "pass", launch["name"]
        if compared["counters"] == "measured":
            wrong = [
                name for name in (EQUAL[3], *MEMORY, "time_s") if quantities[name]["verdict"] not in ("pass", "small")
            ]
            assert wrong == [], launch["name"]
