"""Predict a random sample of the launches of all rounds whose cases lie here again, with no GPU, by today's model.

    python validate/lab/public/again.py FILE [--count 72] [--seed 20261126] [--limit 150]

Adds a line for each launch to FILE, as `foretell.py` does, with the commit that predicted it first; launches that FILE
has are left out, and so are those of libraries that cannot be imported. `page.py` shows the sample beside the first
predictions, from validate/data, where FILE goes packed.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any

from compare import key
from foretell import compile_ahead, limited, of_launch, recorded, warm_up
from launching import FOLDERS
from page import ROUNDS, TIME, Launch, Round, launches_of
from rounds import cases_of


def sample(count: int, seed: int) -> list[tuple[Round, Launch]]:
    """Launches that were predicted and measured, each as likely to be drawn as any other."""
    here = [chosen for chosen in ROUNDS if chosen.round in FOLDERS]
    every = [(chosen, launch) for chosen in here for launch in launches_of(chosen) if TIME in launch.errors]
    return random.Random(seed).sample(every, count)


def main() -> None:
    """Write the lines as they come."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=72)
    parser.add_argument("--seed", type=int, default=20261126)
    parser.add_argument("--limit", type=int, default=150)
    options = parser.parse_args()
    lines = map(json.loads, options.file.read_text().splitlines() if options.file.exists() else ())
    known = {(line["commit"], line["name"]) for line in lines if "commit" in line}
    warm_up("h200")
    unreadable = options.file.with_suffix(".unreadable")
    left: list[tuple[dict[str, Any], Any, str]] = []
    for chosen, drawn in sample(options.count, options.seed):
        told = drawn.told
        if (chosen.commit, told["name"]) in known:
            continue
        case_name = told["name"].rpartition("/")[0]
        case = cases_of([chosen.round], [case_name])[case_name]
        for line, launch in recorded(unreadable, case, chosen.device):
            if key(line["name"], list(line["grid"])) == key(told["name"], told["grid"]):
                left.append((line | {"name": told["name"], "commit": chosen.commit}, launch, chosen.device))
    for device in ("h200", "h100"):
        compile_ahead([launch for _, launch, where in left if where == device], device)
    for line, launch, device in left:
        limited(options.file, line, lambda launch=launch, device=device: of_launch(launch, device), options.limit)


if __name__ == "__main__":
    main()
