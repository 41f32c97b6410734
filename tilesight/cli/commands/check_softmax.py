"""`tilesight check-softmax`: the laws of online softmax against the user's own function."""

from typing import Annotated, Any

import typer

from ..output import BadInput, progress, show, text_color, text_width
from ..parse import dtype_of, flag, number, one_of, option

ADAPTERS = ("softmax", "attention", "merge", "streaming")
DTYPES = ("fp64", "fp32", "fp16", "bf16")
ARRAYS = ("numpy", "torch", "cuda")


def check_softmax(
    target: Annotated[
        str, typer.Argument(help="package.module:function, or path/to/file.py:function.", metavar="TARGET")
    ],
    adapter: Annotated[
        str | None,
        option("--adapter", "Kind of function.  [default: by its arguments]", "|".join(ADAPTERS), one_of(*ADAPTERS)),
    ] = None,
    dtype: Annotated[
        str | None,
        option("--dtype", "Element type.  [default: the first declared, fp32]", "|".join(DTYPES), dtype_of(*DTYPES)),
    ] = None,
    arrays: Annotated[
        str | None,
        option("--arrays", "Arrays that it takes.  [default: found by trying]", "|".join(ARRAYS), one_of(*ARRAYS)),
    ] = None,
    declare: Annotated[
        list[str] | None,
        option("--declare", "Declare what it supports, e.g. masking=none; repeatable.", "NAME=VALUE"),
    ] = None,
    law: Annotated[list[str] | None, option("--law", "Test only this law; repeatable.", "NAME")] = None,
    examples: Annotated[int, option("--examples", "Inputs per law.")] = 200,
    seed: Annotated[int, option("--seed", "Seed of the random inputs.")] = 0,
    timeout: Annotated[
        float | None,
        option(
            "--timeout",
            "Time limit for one input.  [default: 30; 60 for the first, a plain one, which may compile]",
            "SECONDS",
            number,
        ),
    ] = None,
    json: Annotated[bool, flag("--json", "Print JSON.")] = False,
) -> None:
    """Test a softmax or attention function of yours against the laws of online softmax.

    THIS IMPORTS AND RUNS YOUR CODE, with your rights; in processes of its own, so a hang or crash costs its law alone.
    Exit code 0: all laws that apply hold; 1: one does not, and a snippet shows it again; 2: bad input.
    """
    from ...simulator.display import render
    from ...softmax_laws.declare.declaration import Declaration, parsed
    from ...softmax_laws.run import report, runner
    from ...softmax_laws.run.hunt import find_law

    if examples < 1:
        raise BadInput(f"--examples = {examples}: must be an integer of 1 or more")
    if seed < 0:
        raise BadInput(f"--seed = {seed}: must be an integer of 0 or more")
    if timeout is not None and not 0 < timeout < 1e6:
        raise BadInput(f"--timeout = {timeout:g}: must be more than 0 and less than 1000000")
    given: dict[str, Any] = {}
    try:
        given |= dict(parsed(text) for text in declare or [])
        for name, value in (("adapter", adapter), ("dtype", dtype), ("arrays", arrays)):
            if value is not None and name in given:
                raise BadInput(f"--{name} {value} and --declare {name}={given[name]}: give one")
            given |= {} if value is None else {name: value}
        Declaration(**given)
        chosen = {"laws": tuple(find_law(name).name for name in law)} if law else {}
    except ValueError as error:
        raise BadInput(f"{'--law' if str(error).startswith('law ') else '--declare'}: {error}") from None
    job = runner.Job(target=target, given=given, examples=examples, seed=seed, timeout_s=timeout, **chosen)
    try:
        with progress("laws") as tick:
            checked = runner.run(job, tick)
    except ValueError as error:
        raise BadInput(f"TARGET: {error}") from None
    result = report.to_dict(checked, job)
    show(render.to_json(result) if json else report.to_text(checked, job, text_width(), text_color()))
    if result["failed"]:
        raise typer.Exit(1)
