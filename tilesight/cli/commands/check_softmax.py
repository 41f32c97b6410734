"""`tilesight check-softmax`: the laws of online softmax against the user's own function."""

from typing import Any

import typer

from ..groups import Group, argument, flag, option, spread, word
from ..output import BadInput, answer, bad_input, progress, text_color, text_width
from ..parse import dtype_of, number

DTYPES = ("fp64", "fp32", "fp16", "bf16")


class LawsOptions(Group):
    """The function, what is said of it, and how it is tested."""

    target: str = argument("package.module:function, or path/to/file.py:function.", "TARGET")
    adapter: str | None = word(
        None,
        "Kind of function.  [default: by its arguments]",
        *("softmax", "attention", "merge", "streaming"),
    )
    dtype: str | None = option(
        None, "Element type.  [default: the first declared, fp32]", "|".join(DTYPES), dtype_of(*DTYPES)
    )
    arrays: str | None = word(None, "Arrays that it takes.  [default: found by trying]", "numpy", "torch", "cuda")
    declare: list[str] | None = option(None, "Declare what it supports, e.g. masking=none; repeatable.", "NAME=VALUE")
    law: list[str] | None = option(None, "Test only this law; repeatable.", "NAME")
    examples: int = option(200, "Inputs per law.", least=1)
    seed: int = option(0, "Seed of the random inputs.", least=0)
    timeout: float | None = option(
        None,
        "Time limit for one input.  [default: 30; 60 for the first, a plain one, which may compile]",
        "SECONDS",
        number,
    )
    json: bool = flag("Print JSON.")


@spread
def check_softmax(*, asked: LawsOptions) -> None:
    """Test a softmax or attention function of yours against the laws of online softmax.

    THIS IMPORTS AND RUNS YOUR CODE, with your rights; in processes of its own, so a hang or crash costs its law alone.
    Exit code 0: all laws that apply hold; 1: one does not, and a snippet shows it again; 2: bad input.
    """
    from ...softmax_laws.declare.declaration import Declaration, parsed
    from ...softmax_laws.run import report, runner
    from ...softmax_laws.run.hunt import find_law

    if asked.timeout is not None and not 0 < asked.timeout < 1e6:
        raise BadInput(f"--timeout = {asked.timeout:g}: must be more than 0 and less than 1000000")
    given: dict[str, Any] = {}
    try:
        given |= dict(parsed(text) for text in asked.declare or [])
        for name in ("adapter", "dtype", "arrays"):
            value = getattr(asked, name)
            if value is not None and name in given:
                raise BadInput(f"--{name} {value} and --declare {name}={given[name]}: give one")
            given |= {} if value is None else {name: value}
        Declaration(**given)
        chosen = {"laws": tuple(find_law(name).name for name in asked.law)} if asked.law else {}
    except ValueError as error:
        raise BadInput(f"{'--law' if str(error).startswith('law ') else '--declare'}: {error}") from None
    job = runner.Job(
        target=asked.target, given=given, examples=asked.examples, seed=asked.seed, timeout_s=asked.timeout, **chosen
    )
    with bad_input(before="TARGET: "), progress("laws") as tick:
        checked = runner.run(job, tick)
    result = report.to_dict(checked, job)
    answer(asked, lambda: report.to_text(checked, job, text_width(), text_color()), lambda: result)
    if result["failed"]:
        raise typer.Exit(1)
