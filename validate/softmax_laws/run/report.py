"""Results of laws for people and programs: a table, JSON, and counter-examples as snippets that run."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...simulator.display.render import Column, table, wrapped
from ..declare.case import ARRAYS, Case
from ..draw.arrays import FEW, FUNCTIONS, literal
from .fit import FORMS
from .hunt import LAWS, Result
from .runner import Checked, Job, LawResult
from .scope import not_tested
from .target import importing

SCHEMA = "tilesight.check-softmax/1"
STATEMENTS = {law.name: law.statement for law in LAWS}
OUTCOMES = ("passed", "failed", "not applicable")
UNLESS = "If your function does not promise this"
FOUND_BY_TRYING = ("arrays", "dtype", "rank", "lse", "causal", "block", "gradient", "observes")
"""Declarations that are found by trying, and so worth showing."""


def arguments(case: Case, knob: Any, dtype: str = "fp64") -> dict[str, str]:
    """A counter-example as keywords of `reproduce` and the expressions for them. Args: dtype: under test."""
    keywords = {}
    for name in ARRAYS:
        array = getattr(case, name)
        if array is not None:
            keywords[name] = literal(array, dtype) if array.size <= FEW or not case.code.get(name) else case.code[name]
    if case.causal:
        keywords["masked"] = "True"
    if case.cuts:
        keywords["cuts"] = repr(case.cuts)
    if knob is not None:
        keywords["knob"] = repr(knob)
    return keywords


def snippet(law: str, lines: str, name: str, given: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """Python that shows a counter-example again.

    Args:
        lines: that make `name` the implementation; given: declarations; inputs: as from `arguments`.
    """
    text = " ".join(inputs.values())
    functions = [function for function in FUNCTIONS if re.search(rf"\b{function}\(", text)]
    begin = ["import numpy as np"] if "np." in text else []
    begin += [f"from tilesight.softmax_laws import {', '.join([*functions, 'reproduce'])}", lines, ""]
    begin += [f"{key} = {value}" for key, value in inputs.items()]
    passed = [f"{key}={key}" for key in inputs] + [f"{key}={value!r}" for key, value in given.items()]
    return "\n".join([*begin, f"reproduce({', '.join([repr(law), name, *passed])})"])


def failures_text(results: Sequence[Result], function: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """What went wrong when a function was checked in this process, law by law, each with its snippet."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if module and name.isidentifier() and module != "__main__":
        lines = f"from {module} import {name}"
    else:
        lines, name = "# function = what was checked", "function"
    dtype = given.get("dtype") or "fp64"
    parts = []
    for result in results:
        shown = "" if result.case is None else snippet(
            result.law, lines, name, given, arguments(result.case, result.knob, dtype))  # fmt: skip
        promise = f"\n\n{UNLESS}: declare {result.unless}" if result.unless else ""
        parts.append(f"{result.law}: {result.reason}\n\n{shown}{promise}")
    return "\n\n".join(parts)


def _snippet(result: LawResult, job: Job) -> str | None:
    return snippet(result.law, *importing(job.target), job.given, result.inputs) if result.inputs else None


def to_dict(checked: Checked, job: Job) -> dict[str, Any]:
    """All results as plain values."""
    return {
        "schema": SCHEMA,
        "target": job.target,
        "examples": job.examples,
        "seed": job.seed,
        "declaration": checked.declaration,
        "laws": [
            {
                "law": result.law,
                "statement": STATEMENTS[result.law],
                "outcome": result.outcome,
                "examples": result.examples,
                "reason": result.reason or None,
                "snippet": _snippet(result, job),
                "unless": result.unless or None,
            }
            for result in checked.results
        ],
        **{outcome.replace(" ", "_"): _count(checked, outcome) for outcome in OUTCOMES},
        "not_tested": _not_tested(checked),
    }


def _count(checked: Checked, outcome: str) -> int:
    return sum(result.outcome == outcome for result in checked.results)


def to_text(checked: Checked, job: Job, width: int, color: bool = False) -> str:
    """All results for people: what was tested, a table of laws, why some do not apply, and counter-examples."""
    lines = wrapped([_tested(checked, job)], width)
    says = [
        result.reason if result.outcome == "not applicable" else STATEMENTS[result.law] for result in checked.results
    ]
    columns = [
        Column("law", [result.law for result in checked.results], left=True),
        Column("outcome", [result.outcome for result in checked.results], left=True),
        Column("inputs", [str(result.examples) if result.examples else "" for result in checked.results]),
        Column("what must hold, or why it does not apply", says, left=True),
    ]
    lines.append(table(columns, width, color))
    if checked.declaration is None:
        lines += ["", *wrapped([f"no law could be tried: {checked.results[0].reason}"], width)]
    for result in checked.results:
        if result.outcome == "failed" and checked.declaration is not None:
            lines += ["", *wrapped([f"{result.law} failed: {result.reason}"], width)]
            shown = _snippet(result, job)
            # As it is, so that it can be pasted.
            lines += ["", *shown.splitlines()] if shown else []
            lines += ["", f"{UNLESS}: --declare {result.unless}"] if result.unless else []
    counts = ", ".join(f"{_count(checked, outcome)} {outcome}" for outcome in OUTCOMES)
    return "\n".join([*lines, "", f"{counts}.", *wrapped([f"Not tested: {'; '.join(_not_tested(checked))}."], width)])


def _not_tested(checked: Checked) -> list[str]:
    tried = {result.law: result.outcome != "not applicable" for result in checked.results}
    return not_tested(checked.declaration, tried, len(LAWS) - len(checked.results))


def _tested(checked: Checked, job: Job) -> str:
    if checked.declaration is None:
        return f"{job.target}"
    declaration = checked.declaration
    words = []
    for name in FOUND_BY_TRYING:
        value = declaration[name]
        if value not in (None, "", [], ()):
            shown = (
                ", ".join(value)
                if isinstance(value, list)
                else str(value).lower()
                if isinstance(value, bool)
                else value
            )
            words.append(f"{name}={shown}")
    adapter = declaration["adapter"]
    return f"{job.target} as {adapter}, {FORMS[adapter]}: {' '.join(words)}"
