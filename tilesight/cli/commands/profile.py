"""`tilesight profile`: what a step of PyTorch takes on a GPU, kernel by kernel: eager, compiled, in training."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...simulator.operations.groups import KEYS
from ...simulator.operations.operation import MODES, Mode
from ..kernels import Partial, users_code
from ..limit import USERS_CODE_S, TimeLimit, limit_of, stages
from ..model.buckets import bucket_sizes
from ..options import Devices, Settings, Workers, device_notes, devices_given, one_device, workers_given
from ..output import (
    BadInput,
    Failed,
    Output,
    announce_compiler,
    bad_input,
    deliver,
    one_line,
    progress,
    say,
    show,
    text_color,
    text_width,
)
from ..parse import each_once, flag, one_of, option

if TYPE_CHECKING:
    from ...kernels.pytorch.file import WrittenStep
    from ...profiling import Asked
    from ...simulator.device.device import Device
    from ...simulator.operations.profile import Profile

STEP = typer.Argument(
    help="Function that runs a step, on what `inputs()` of its file makes; or MODULE:FUNCTION, or hf:config.json.",
    metavar="FILE.py:FUNCTION",
)
HUGGING_FACE = "hf:"
DECODE = re.compile(r"([1-9]\d*)x([1-9]\d*)")


def profile(
    target: Annotated[str, STEP],
    device: Devices = None,
    set_: Settings = None,
    eager: Annotated[bool, flag("--eager", "Run the code without torch.compile, even where it asks for it.")] = False,
    compile_: Annotated[bool, flag("--compile", "Run the function compiled by torch.compile.")] = False,
    compare: Annotated[
        bool, flag("--compare", "Run it both ways: what fusing saves, and which operations each fused kernel holds.")
    ] = False,
    mode: Annotated[
        str | None,
        option(
            "--mode",
            "How it runs: as the code says, eager, compiled, or with all choices of torch.compile tried; several are "
            "shown beside each other.  [default: auto]",
            ",".join(MODES),
        ),
    ] = None,
    train: Annotated[bool, flag("--train", "Run the backward pass of what the function returns, too.")] = False,
    by: Annotated[
        Any,
        option(
            "--by", "What a line of the table is.  [default: kernels that are alike]", "|".join(KEYS), one_of(*KEYS)
        ),
    ] = None,
    graph: Annotated[bool, flag("--graph", "Replay the step as a CUDA graph: no launch waits for the host.")] = False,
    l2: Annotated[
        str, option("--l2", "L2 before the step: as itself left it, or zeroed.", "warm|cold", one_of("warm", "cold"))
    ] = "warm",
    as_: Annotated[
        str,
        option(
            *("--as", "How time is measured: a single run, or triton.testing.do_bench, which zeroes L2."),
            *("single|do_bench", one_of("single", "do_bench")),
        ),
    ] = "single",
    top: Annotated[int, option("--top", "Lines of the table, the longest first.")] = 20,
    tokens: Annotated[int | None, option("--tokens", "Of hf:config.json: tokens of a forward pass.")] = None,
    decode: Annotated[
        str | None,
        option("--decode", "Of hf:config.json: a token for each of so many sequences, which hold so many.", "BxHELD"),
    ] = None,
    buckets: Annotated[
        str | None,
        option("--buckets", "Of --decode: what steps cost that are padded to so many sequences.", "B[xHELD],..."),
    ] = None,
    batch: Annotated[
        int | None, option("--batch", "Of hf:config.json: sequences or images of a pass.  [default: 1]")
    ] = None,
    layers: Annotated[int | None, option("--layers", "Of hf:config.json: so many of its layers.")] = None,
    indices: Annotated[
        str | None,
        option(
            "--indices",
            "Values of indices that the step does not give: drawn alike from all rows.  [default: unknown, refused]",
            "uniform",
            one_of("uniform"),
        ),
    ] = None,
    price: Annotated[
        list[str] | None,
        option(
            "--price",
            "What an operation takes that has no price: a time, or a bandwidth (mylib::op=12us, all_reduce=450GB/s); "
            "repeatable.",
            "NAME=TIME|BANDWIDTH",
        ),
    ] = None,
    time_limit: TimeLimit = None,
    workers: Workers = None,
    partial: Partial = False,
    json: Annotated[bool, flag("--json", "Print JSON; of several devices, or of --compare, a list.")] = False,
    csv: Annotated[Path | None, option("--csv", "Write all kernels as CSV.", "FILE")] = None,
    trace: Annotated[
        Path | None,
        option("--trace", "Write a timeline for https://ui.perfetto.dev, which torch's Inductor reads too.", "FILE"),
    ] = None,
) -> None:
    """Say what a step of PyTorch takes on a GPU, kernel by kernel, without one.

    The function runs in a process of its own on tensors without data: every operation of torch, and every Triton kernel
    that torch.compile makes, is recorded and priced. Repeat --device for a table of GPUs; --by has each show
    its kernels, too.
    """
    devices = devices_given(device, set_)
    one_device(devices, trace=trace)
    modes = _modes(eager, compile_, compare, mode)
    if trace and len(modes) > 1:
        raise BadInput(f"--trace {str(trace)!r}: shows one mode, not {len(modes)}; run once with each")
    sizes = bucket_sizes(buckets, decode, len(modes))
    if top < 1:
        raise BadInput(f"--top = {top}: must be an integer of 1 or more")
    processes, limit_s = workers_given(workers), limit_of(time_limit)
    from ...compiling import why_not

    if reason := why_not():
        raise BadInput(f"profile: {reason}")
    from ...profiling import Asked
    from ...simulator.display import render
    from ...simulator.operations.chrome_trace import chrome_trace
    from ...simulator.operations.stated import parse_prices, split_prices
    from ...simulator.report.operations.beside import devices_text, profiles_json, profiles_rows
    from ...simulator.report.operations.buckets import Bucket, Size, buckets_of, buckets_text
    from ...simulator.report.operations.modes import modes_text
    from ...simulator.report.operations.text import short_text
    from ...tuning.step_kernels import Predicting

    try:
        prices = parse_prices(split_prices(price or ()))
    except ValueError as error:
        raise BadInput(f"--price {error}") from None
    asked = Asked(
        prices=prices,
        train=train,
        l2="cold" if l2 == "cold" else "warm",
        timing=as_,
        queue="graph" if graph else "stream",
        settings=tuple(set_ or ()),
        options={"timeout_s": time_limit or USERS_CODE_S} | ({"indices": indices} if indices else {}),
    )
    how = Predicting(limit_s=limit_s, compile_limit_s=time_limit or USERS_CODE_S, workers=processes)
    outcomes: dict[str, Sequence[Profile] | str] = {}
    padded: dict[str, Sequence[Bucket]] = {}
    errors: list[Exception] = []
    for name, gpu in devices.items():
        try:
            sizes_given = {"--tokens": tokens, "--decode": decode, "--batch": batch, "--layers": layers}
            step = _step_of(target, sizes_given, train)
            profiles = [_profile(step, target, name, gpu, replace(asked, mode=mode), how) for mode in modes]

            def run(size: Size, name: str = name, gpu: "Device" = gpu) -> "Profile":
                step = _step_of(target, {"--decode": str(size), "--layers": layers}, train)
                return _profile(step, f"{target}, {size}", name, gpu, replace(asked, mode=modes[0]), how)

            padded[name] = buckets_of(sizes, run)
        except (BadInput, Failed) as error:
            if len(devices) == 1:
                raise
            errors.append(error)
            outcomes[name] = one_line(str(error))
            say(f"{name}: {error}")
            continue
        profiles = [replace(made, notes=(*device_notes(name, gpu, set_), *made.notes)) for made in profiles]
        outcomes[name] = profiles
        if not json:
            heads = [short_text(made, text_width()) for made in profiles]
            if len(devices) == 1 or by:
                heads[-1] = profiles[-1].text(text_width(), text_color(), by=by, top=top)
            beside = [modes_text(profiles, text_width(), text_color())] if len(modes) > 1 else []
            if sizes:
                beside.append(buckets_text(padded[name], text_width(), text_color()))
            show("\n\n".join([*heads, *beside]) + ("\n\n" if len(devices) > 1 else ""))
    answered = [made for outcome in outcomes.values() if not isinstance(outcome, str) for made in outcome]
    ranked = devices_text(answered, text_width(), text_color()) if len(devices) > 1 and answered else ""
    deliver(
        render.to_json(profiles_json(outcomes, padded)) if json else ranked,
        Output(option="--csv", path=csv if answered else None, make=lambda: render.to_csv(profiles_rows(answered))),
        Output(
            option="--trace",
            path=trace if answered else None,
            make=lambda: chrome_trace(answered[0]),
            hint="open it at https://ui.perfetto.dev",
        ),
    )
    if errors and not answered:
        raise errors[0]
    complete = not errors and all(made.complete for made in answered)
    if not any(made.time_s for made in answered) or not (partial or complete):
        raise typer.Exit(1)


def _modes(eager: bool, compile_: bool, compare: bool, mode: str | None) -> list[Mode]:
    """How the step runs. Raises: BadInput: options contradict each other, or there is no such mode."""
    wanted = {"--eager": eager, "--compile": compile_, "--compare": compare, "--mode": mode is not None}
    if len(given := [name for name, is_given in wanted.items() if is_given]) > 1:
        raise BadInput(f"{' and '.join(given)}: give one; --compare runs both, and --mode has several with commas")
    if mode is None:
        return ["eager", "compiled"] if compare else ["eager" if eager else "compiled" if compile_ else "auto"]
    known = {str(name): name for name in MODES}
    names = [name.strip() for name in mode.split(",")]
    if strange := [name for name in names if name not in known]:
        raise BadInput(f"--mode {mode!r}: {strange[0]!r} must be one of {', '.join(MODES)}")
    return [known[name] for name in each_once("--mode", mode, names)]


def _step_of(target: str, given: Mapping[str, int | str | None], train: bool) -> "str | WrittenStep":
    """The function to run: of a config a file that is written for it. Raises: BadInput: an option does not fit."""
    wanted = {name: value for name, value in given.items() if value is not None}
    if not target.startswith(HUGGING_FACE):
        for name, value in wanted.items():
            raise BadInput(f"{name} {value}: is for hf:config.json; a function makes its own inputs")
        return target
    config = Path(target.removeprefix(HUGGING_FACE))
    if not config.is_file():
        raise BadInput(f"{target}: no such file: must be the config.json of a model, e.g. hf:llama/config.json")
    for name, value in wanted.items():
        if isinstance(value, int) and value < 1:
            raise BadInput(f"{name} = {value}: must be an integer of 1 or more")
    decode = wanted.get("--decode")
    if bool(decode) == bool(wanted.keys() & {"--tokens", "--batch"}):
        raise BadInput(
            f"{target}: give --tokens N for a forward pass, --batch B for one on images, or --decode BxHELD for a "
            "token of each sequence"
        )
    sizes = DECODE.fullmatch(str(decode or "1x1"))
    if sizes is None:
        raise BadInput(f"--decode {decode!r}: must be sequences x tokens that each holds, e.g. 32x8192")
    if decode and train:
        raise BadInput(f"--train: not with --decode {decode}; --tokens has a forward pass to train on")
    from ...kernels.pytorch.hugging_face.file import Shape, written_step

    layers = int(wanted.get("--layers", 0))
    if decode:
        shape = Shape(batch=int(sizes[1]), tokens=1, held=int(sizes[2]), layers=layers)
    else:
        batch, tokens = int(wanted.get("--batch", 1)), int(wanted.get("--tokens", 0))
        shape = Shape(batch=batch, tokens=tokens, layers=layers, train=train)
    return written_step(config, shape)


def _profile(
    step: "str | WrittenStep", target: str, name: str, device: "Device", asked: "Asked", how: Any
) -> "Profile":
    """One step on one device.

    Args:
        step: to run; target: what the user calls it.

    Raises:
        BadInput, Failed: the function cannot be recorded.
    """
    from ... import profiling

    with stages() as tell, users_code():
        tell(f"{target}: step")
        recorded = profiling.recorded(step, device, name, asked, how)
    if recorded.calls:
        announce_compiler()
    with progress("kernels") as tick, bad_input():
        return profiling.profiled(recorded, device, name, asked, replace(how, progress=tick), subject=target)
