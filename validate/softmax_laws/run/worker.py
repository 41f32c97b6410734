"""One process that runs laws against the user's code, and may die or hang of it without harm.

Run as `python -m tilesight.softmax_laws.run.worker`; `runner` starts, feeds and watches it.
A job comes in as JSON on stdin; events go out as lines of JSON on stdout, one before every single input.
What the user's code prints goes to stderr.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

Tell = Callable[[dict[str, Any]], None]


def work(job: dict[str, Any], tell: Tell) -> None:
    """Run the laws of a job.

    Args:
        job: target, given (declarations), skip (arrays not to try), laws, examples, seed.
        tell: takes events: `trying`, `ready` or `bad`, then for each law `law`, `at` before every input, and `result`.
    """
    from ..call.calls import Poisoned
    from .fit import fit
    from .hunt import Result, find_law, hunt
    from .report import arguments
    from .target import load

    try:
        subject = fit(load(job["target"]), trying=lambda kind: tell({"trying": kind}), skip=job["skip"], **job["given"])
    except ValueError as error:
        tell({"bad": str(error)})
        return
    tell({"ready": asdict(subject.declaration)})
    dtype = subject.declaration.dtype or ""
    last: dict[str, str] = {}

    def watch(case: Any, knob: Any) -> None:
        nonlocal last
        last = arguments(case, knob, dtype)
        tell({"at": last})

    for name in job["laws"]:
        tell({"law": name})
        poison = ""
        try:
            result = hunt(find_law(name), subject, examples=job["examples"], seed=job["seed"], watch=watch)
        except Poisoned as error:
            poison = str(error)
            result = Result(law=name, outcome="failed", reason=poison, unless=find_law(name).unless)
        inputs = last if poison else arguments(result.case, result.knob, dtype) if result.case else {}
        answer = {"law": name, "outcome": result.outcome, "examples": result.examples, "reason": result.reason}
        answer |= {"unless": result.unless}
        tell({"result": answer | {"inputs": inputs}})
        if poison:
            # Nothing that this process still computes can be trusted.
            return


def main() -> None:
    """Read a job, run it, and say that it is done."""
    job = json.loads(sys.stdin.buffer.read())
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(event: dict[str, Any]) -> None:
        events.write(json.dumps(event) + "\n")
        events.flush()

    work(job, tell)
    tell({"done": True})


if __name__ == "__main__":
    main()
