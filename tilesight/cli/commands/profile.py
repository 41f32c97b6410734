"""`tilesight profile`: what a step of PyTorch takes on a GPU, kernel by kernel: eager, compiled, in training."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...simulator.operations.groups import KEYS
from ...simulator.operations.operation import MODES, Mode
from ..groups import Group, argument, flag, option, spread, typed_as, word
from ..kernels import PartialOptions, need_compiler, users_code
from ..limit import LimitOptions, WorkersOptions, limit_of, stages
from ..model.buckets import bucket_sizes
from ..options import DevicesOptions, HostOptions, each_device, leave, one_device
from ..output import BadInput, announce_compiler, answer, bad_input, progress, show, text_color, text_width
from ..parse import each_once

if TYPE_CHECKING:
    from ...kernels.pytorch.file import WrittenStep
    from ...profiling import Asked
    from ...simulator.device.device import Device
    from ...simulator.operations.profile import Profile
    from ...simulator.prediction.kernels import Request
    from ...simulator.report.operations.buckets import Bucket, Size

HUGGING_FACE = "hf:"
DECODE = re.compile(r"([1-9]\d*)x([1-9]\d*)")


class ModeOptions(Group):
    """How the step runs."""

    eager: bool = flag("Run the code without torch.compile, even where it asks for it.")
    compile_: bool = flag("Run the function compiled by torch.compile.")
    compare: bool = flag("Run it both ways: what fusing saves, and which operations each fused kernel holds.")
    mode: str | None = option(
        None,
        "How it runs: as the code says, eager, compiled, or with all choices of torch.compile tried; several are "
        "shown beside each other.  [default: auto]",
        ",".join(MODES),
    )
    train: bool = flag("Run the backward pass of what the function returns, too.")
    graph: bool = flag("Replay the step as a CUDA graph: no launch waits for the host.")
    gpus: int | None = option(None, "GPUs that the step runs on: process groups are of so many.", least=1)
    rank: int | None = option(None, "Which of these GPUs is meant.  [default: 0]", least=0)

    def modes(self) -> list[Mode]:
        """The ways to run it. Raises: BadInput: options contradict each other, or there is no such mode."""
        given = [typed_as(name) for name in ("eager", "compile_", "compare") if getattr(self, name)]
        if len(given := [*given, *(["--mode"] if self.mode is not None else [])]) > 1:
            raise BadInput(f"{' and '.join(given)}: give one; --compare runs both, and --mode has several with commas")
        if self.mode is None:
            usual: Mode = "eager" if self.eager else "compiled" if self.compile_ else "auto"
            return ["eager", "compiled"] if self.compare else [usual]
        known = {str(name): name for name in MODES}
        names = [name.strip() for name in self.mode.split(",")]
        if strange := [name for name in names if name not in known]:
            raise BadInput(f"--mode {self.mode!r}: {strange[0]!r} must be one of {', '.join(MODES)}")
        return [known[name] for name in each_once("--mode", self.mode, names)]

    def several(self) -> dict[str, int]:
        """How many GPUs, and which of them, where that is said. Raises: BadInput: there is no such GPU."""
        if (self.rank or 0) >= (self.gpus or 1):
            raise BadInput(f"--rank {self.rank}: must be below --gpus {self.gpus or 1}")
        return {"gpus": self.gpus, "rank": self.rank or 0} if self.gpus else {}


class StepOptions(Group):
    """What is run: a function, or the model of a config.json on inputs of the sizes given."""

    target: str = argument(
        "Function that runs a step, on what `inputs()` of its file makes; or MODULE:FUNCTION, or hf:config.json.",
        "FILE.py:FUNCTION",
    )
    tokens: int | None = option(None, "Of hf:config.json: tokens of a forward pass.")
    decode: str | None = option(
        None, "Of hf:config.json: a token for each of so many sequences, which hold so many.", "BxHELD"
    )
    buckets: str | None = option(
        None, "Of --decode: what steps cost that are padded to so many sequences.", "B[xHELD],..."
    )
    batch: int | None = option(None, "Of hf:config.json: sequences or images of a pass.  [default: 1]")
    layers: int | None = option(None, "Of hf:config.json: so many of its layers.")

    def padded(self, size: "Size") -> "StepOptions":
        """The same for the decode step of a bucket."""
        return replace(self, decode=str(size), tokens=None, batch=None)

    def build(self, train: bool) -> "str | WrittenStep":
        """The function to run: of a config a file that is written for it. Raises: BadInput: an option does not fit."""
        given = {typed_as(name): getattr(self, name) for name in ("tokens", "decode", "batch", "layers")}
        wanted = {name: value for name, value in given.items() if value is not None}
        if not self.target.startswith(HUGGING_FACE):
            for name, value in wanted.items():
                raise BadInput(f"{name} {value}: is for hf:config.json; a function makes its own inputs")
            return self.target
        config = Path(self.target.removeprefix(HUGGING_FACE))
        if not config.is_file():
            raise BadInput(
                f"{self.target}: no such file: must be the config.json of a model, e.g. hf:llama/config.json"
            )
        for name, value in wanted.items():
            if isinstance(value, int) and value < 1:
                raise BadInput(f"{name} = {value}: must be an integer of 1 or more")
        if bool(self.decode) == bool(wanted.keys() & {"--tokens", "--batch"}):
            raise BadInput(
                f"{self.target}: give --tokens N for a forward pass, --batch B for one on images, or --decode BxHELD "
                "for a token of each sequence"
            )
        sizes = DECODE.fullmatch(self.decode or "1x1")
        if sizes is None:
            raise BadInput(f"--decode {self.decode!r}: must be sequences x tokens that each holds, e.g. 32x8192")
        if self.decode and train:
            raise BadInput(f"--train: not with --decode {self.decode}; --tokens has a forward pass to train on")
        from ...kernels.pytorch.hugging_face.file import Shape, written_step

        layers = self.layers or 0
        if self.decode:
            return written_step(config, Shape(batch=int(sizes[1]), tokens=1, held=int(sizes[2]), layers=layers))
        shape = Shape(batch=self.batch or 1, tokens=self.tokens or 0, layers=layers, train=train)
        return written_step(config, shape)


class PricingOptions(Group):
    """How its time is predicted."""

    l2: str = word("warm", "L2 before the step: as itself left it, or zeroed.", "warm", "cold")
    as_: str = word(
        "single",
        "How time is measured: a single run, or triton.testing.do_bench, which zeroes L2.",
        *("single", "do_bench"),
    )
    indices: str | None = word(
        None,
        "Values of indices that the step does not give: drawn alike from all rows.  [default: unknown, refused]",
        "uniform",
    )
    price: list[str] | None = option(
        None,
        "What an operation takes that has no price: a time, or a bandwidth (mylib::op=12us, all_reduce=450GB/s); "
        "repeatable.",
        "NAME=TIME|BANDWIDTH",
    )


class ProfileOptions(PartialOptions, WorkersOptions, LimitOptions):
    """What may be taken for it, and what is shown of it."""

    by: Any = word(None, "What a line of the table is.  [default: kernels that are alike]", *KEYS)
    top: int = option(20, "Lines of the table, the longest first.", least=1)
    json: bool = flag("Print JSON; of several devices, or of --compare, a list.")
    csv: Path | None = option(None, "Write all kernels as CSV.", "FILE")
    trace: Path | None = option(
        None, "Write a timeline for https://ui.perfetto.dev, which torch's Inductor reads too.", "FILE"
    )


@dataclass(frozen=True, kw_only=True)
class Answered:
    """A step on a device."""

    profiles: "Sequence[Profile]"
    """Of each mode."""
    padded: "Sequence[Bucket]"


@spread
def profile(
    *,
    step: StepOptions,
    mode: ModeOptions,
    machine: DevicesOptions,
    joined: HostOptions,
    pricing: PricingOptions,
    asked: ProfileOptions,
) -> None:
    """Say what a step of PyTorch takes on a GPU, kernel by kernel, without one.

    The function runs in a process of its own on tensors without data: every operation of torch, and every Triton kernel
    that torch.compile makes, is recorded and priced. Repeat --device for a table of GPUs; --by has each show
    its kernels, too.
    """
    devices, modes = joined.devices(machine, mode.gpus or 1), mode.modes()
    one_device(devices, trace=asked.trace)
    if asked.trace and len(modes) > 1:
        raise BadInput(f"--trace {str(asked.trace)!r}: shows one mode, not {len(modes)}; run once with each")
    sizes, limit_s = bucket_sizes(step.buckets, step.decode, len(modes)), limit_of(asked.time_limit)
    need_compiler("profile")
    from ...simulator.operations.chrome_trace import chrome_trace
    from ...simulator.prediction.kernels import Request
    from ...simulator.report.operations.buckets import buckets_of
    from ...simulator.report.operations.modes import devices_text, profiles_json

    question = _question(mode, machine, pricing, asked)

    def answered(name: str, gpu: "Device") -> Answered:
        target = Request(device=gpu, name=name, limit_s=limit_s, compile_limit_s=asked.code_s, workers=asked.processes)

        def run(built: "str | WrittenStep", way: Mode, subject: str) -> "Profile":
            return _profile(built, subject, replace(question, mode=way), target)

        def run_padded(size: "Size") -> "Profile":
            return run(step.padded(size).build(mode.train), modes[0], f"{step.target}, {size}")

        built = step.build(mode.train)
        made = [run(built, way, step.target) for way in modes]
        made = [replace(profile, notes=(*machine.notes(name, gpu), *profile.notes)) for profile in made]
        outcome = Answered(profiles=made, padded=buckets_of(sizes, run_padded))
        if not asked.json:
            show(_text(outcome, asked, len(devices)))
        return outcome

    outcomes, errors = each_device(devices, answered)
    reached = {name: outcome for name, outcome in outcomes.items() if not isinstance(outcome, str)}
    profiles = [made for outcome in reached.values() for made in outcome.profiles]
    values = {name: made if isinstance(made, str) else made.profiles for name, made in outcomes.items()}
    answer(
        asked,
        lambda: devices_text(profiles, text_width(), text_color()) if len(devices) > 1 and profiles else "",
        lambda: profiles_json(values, {name: outcome.padded for name, outcome in reached.items()}),
        csv=(lambda: [row for profile in profiles for row in profile.flat_rows()]) if profiles else None,
        trace=(lambda: chrome_trace(profiles[0])) if profiles else None,
    )
    leave(errors, [bool(made.time_s) for made in profiles], all(made.complete for made in profiles), asked.partial)


def _question(mode: ModeOptions, machine: DevicesOptions, pricing: PricingOptions, asked: ProfileOptions) -> "Asked":
    """How the step runs, but for its mode. Raises: BadInput: a price is none."""
    from ...profiling import Asked
    from ...simulator.operations.stated import parse_prices, split_prices

    with bad_input(before="--price "):
        prices = parse_prices(split_prices(pricing.price or ()))
    return Asked(
        prices=prices,
        train=mode.train,
        l2="cold" if pricing.l2 == "cold" else "warm",
        timing=pricing.as_,
        queue="graph" if mode.graph else "stream",
        settings=tuple(machine.set_ or ()),
        options={"timeout_s": asked.code_s, **mode.several()}
        | ({"indices": pricing.indices} if pricing.indices else {}),
    )


def _text(answered: Answered, asked: ProfileOptions, devices: int) -> str:
    """What to print of a device. Args: devices: how many there are."""
    from ...simulator.report.operations.buckets import buckets_text
    from ...simulator.report.operations.modes import modes_text
    from ...simulator.report.operations.text import short_text

    width, color, profiles = text_width(), text_color(), answered.profiles
    texts = [short_text(made, width) for made in profiles]
    if devices == 1 or asked.by:
        texts[-1] = profiles[-1].text(width, color, by=asked.by, top=asked.top)
    if len(profiles) > 1:
        texts.append(modes_text(profiles, width, color))
    if answered.padded:
        texts.append(buckets_text(answered.padded, width, color))
    return "\n\n".join(texts) + ("\n\n" if devices > 1 else "")


def _profile(step: "str | WrittenStep", subject: str, asked: "Asked", target: "Request") -> "Profile":
    """One step on one device.

    Args:
        step: to run; subject: what the user calls it.

    Raises:
        BadInput, Failed: the function cannot be recorded.
    """
    from ... import profiling

    with stages() as on_progress, users_code():
        on_progress(f"{subject}: step")
        recorded = profiling.recorded(step, asked, target)
    if recorded.calls:
        announce_compiler()
    with progress("kernels") as tick, bad_input():
        return profiling.profiled(recorded, asked, target, subject, tick)
