"""The pages of public kernels and of the choice hold what the kept data say, and nothing else."""

import json
import lzma
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from support.lab import LAB

PUBLIC = LAB / "public"


def test_the_page_of_public_kernels_is_what_its_data_say() -> None:
    """`page.py` writes the committed page, byte by byte, from predictions and measurements."""
    checked = subprocess.run([sys.executable, str(PUBLIC / "page.py"), "--check"], check=False)
    assert checked.returncode == 0, "run: python validate/lab/public/page.py"


def test_the_page_of_the_choice_is_what_its_data_say() -> None:
    """Every cell, with the five fastest measured and the rank that each was given."""
    program = LAB / "choice" / "page.py"
    checked = subprocess.run([sys.executable, str(program), "--check"], check=False)
    assert checked.returncode == 0, "run: python validate/lab/choice/page.py"


def test_measurements_packed_one_after_the_other_are_kept_without_single_times(tmp_path: Path) -> None:
    """A file of several streams, as a GPU's run leaves it, is read to its end; of what was predicted twice the last."""
    lines = [{"cell": "b", "index": 1, "round": 0, "clean": [2.0], "clean_us": 2.0}, {"cell": "a", "index": 0, "us": 1}]
    packed = b"".join(lzma.compress(json.dumps(line).encode() + b"\n") for line in [*lines, {**lines[1], "us": 3}])
    (tmp_path / "measured.jsonl.xz").write_bytes(packed)
    program, out = LAB / "choice" / "kept.py", tmp_path / "kept.jsonl.xz"
    subprocess.run([sys.executable, str(program), str(out), str(tmp_path / "measured.jsonl.xz")], check=True)
    kept = [json.loads(line) for line in lzma.decompress(out.read_bytes()).splitlines()]
    assert kept == [{"cell": "a", "index": 0, "us": 3}, {"cell": "b", "index": 1, "round": 0, "clean_us": 2.0}]


def test_every_launch_of_a_round_is_counted_predicted_or_not() -> None:
    """The third round asked for 89 launches: 17 were not predicted, two did not run, 70 are compared."""
    program = "import page; r = page.launches_of(page.ROUNDS[3]); print(len(r), sum(not one.errors for one in r))"
    printed = subprocess.run(
        [sys.executable, "-c", program], cwd=PUBLIC, check=True, capture_output=True, text=True
    ).stdout
    assert printed.split() == ["87", "17"]


def test_folders_of_public_cases_are_named_by_two_libraries_with_many_cases() -> None:
    """At least four cases of each library of a name, and `launching.py` lists every folder, so that it has a round."""
    folders = sorted(path.parent for path in PUBLIC.glob("*/__init__.py"))
    listed = (PUBLIC / "launching.py").read_text("utf-8").partition("FOLDERS = {")[2].partition("}")[0]
    assert sorted(re.findall(r'"(\w+)"', listed)) == [folder.name for folder in folders]
    for folder in folders:
        text = "".join(path.read_text("utf-8") for path in folder.glob("*.py"))
        cases = Counter(re.findall(r'^@case\("(\w+)\.', text, re.MULTILINE))
        pairs = {f"{first}_{second}" for first in cases for second in cases if min(cases[first], cases[second]) >= 4}
        assert folder.name in pairs
