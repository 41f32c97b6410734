"""Add to validate/data/INDEX.csv the files that it lacks, by their names and what they say of themselves.

    python validate/lab/index_data.py

A file says driver, torch, triton, cuda, gpu and commit in its rows (`"driver": "580.159.04"`); what it does not say is
`not recorded` until somebody who knows writes it into the index. Commit the data first: `added` is that commit.
`program` is what made it: where no program of the lab is named as the file is, somebody has to say. Of one that is
deleted later the index keeps `FILE@COMMIT`, a commit that has it.
"""

import csv
import lzma
import re
import subprocess
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"
INDEX = DATA / "INDEX.csv"
UNKNOWN, NONE = "not recorded", "-"


def said(text: str, key: str) -> list[str]:
    """What a file says of itself under a key, in order, each once."""
    return [value for value in dict.fromkeys(re.findall(rf'"{key}"\s*:\s*"([^"]*)"', text)) if value]


def program_of(name: str) -> str:
    """What made a file, by its name."""
    stem = re.split(r"-(?:predicted-|again-)*(?:h100|h200|20)", name)[0].replace("-", "_")
    places = (Path("validate/lab", stem + ending) for ending in (".py", ".cu"))
    return next((place.as_posix() for place in places if (DATA.parents[1] / place).exists()), UNKNOWN)


def row_of(path: Path) -> dict[str, str]:
    """The line of a file. Raises: IndexError: its name has no date, or it is not committed."""
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as stream:
        text = str(stream.read())
    name = path.name
    predicted, both = "predicted" in name, "compared" in name
    gpus = [gpu for gpu in said(text, "gpu") if gpu.startswith("NVIDIA")]
    versions = [(word, said(text, key)) for word, key in (("torch", "torch"), ("triton", "triton"), ("CUDA", "cuda"))]
    commits = [commit for commit in said(text, "commit") if re.fullmatch("[0-9a-f]{7,8}", commit)]
    log = ["git", "log", "--follow", "--format=%h", "--abbrev=8", "--", str(path)]
    added = subprocess.run(log, capture_output=True, text=True, check=True)
    run = not predicted or both
    return {
        "file": name,
        "program": program_of(name),
        "holds": "predicted and measured" if both else "predicted" if predicted else "measured",
        "date": re.findall(r"20\d\d-\d\d-\d\d", name)[0],
        "gpu": gpus[0] if gpus else re.findall(r"\bh[12]00\b", name)[0].upper(),
        "driver": (said(text, "driver") or [UNKNOWN])[0] if run else NONE,
        "versions": (", ".join(f"{word} {values[0]}" for word, values in versions if values) or UNKNOWN)
        if run
        else NONE,
        "commit": " ".join(commits) or UNKNOWN,
        "added": added.stdout.split()[-1],
    }


def main() -> None:
    """Write the index anew, lines that are there as they are."""
    with INDEX.open(encoding="utf-8", newline="") as text:
        rows = {row["file"]: row for row in csv.DictReader(text)}
    files = sorted(path for path in DATA.iterdir() if path != INDEX)
    lines = [rows.get(path.name) or row_of(path) for path in files]
    with INDEX.open("w", encoding="utf-8", newline="") as text:
        writer = csv.DictWriter(text, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()
