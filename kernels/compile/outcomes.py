"""What became of compile jobs, whoever wrote them: answers from the cache, else from compiler processes."""

from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from subprocess import SubprocessError
from typing import Any

from ...simulator.cache_folder import cache_folder
from ...simulator.device.device import Device
from ...simulator.jobs.pool import cores
from ...simulator.jobs.processes import WorkerDied
from ...simulator.launch.program import Code, Resources
from ...simulator.limits import WARP_THREADS, WORD_BYTES
from ...simulator.refusal import Refusal
from ...simulator.residency.occupancy import occupancy
from ...simulator.sass.constants import Parameter, constant_bank, place_of
from . import diagnosis, disassemble, kernel_info
from .cache import read, write
from .pool import POOL, Pool, Turns

TMEM_COLUMNS = 512
"""Columns of tensor memory that a CTA can take on sm_100."""
LIBRARIES = ("/triton/language/", "/triton/experimental/")
"""Folders of Triton's own source files: their code belongs to the line before it."""
LISTED_TOGETHER = 32
"""Kernels that are disassembled at once: enough that the start of the disassembler does not count, and few enough that
little is lost where the command is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What the compiler made of a launch.

    Args:
        resources: registers, shared memory, spills, and warps after specialisation; origin `compiled`;
            with the machine code itself, where it was asked for.
        instructions: SASS opcode with modifiers (`HGMMA.64...`) -> how often it stands in the code.
    """

    resources: Resources
    instructions: dict[str, int]

    @property
    def code(self) -> Code | None:
        """The machine code, where it was asked for."""
        return self.resources.code

    def count(self, family: str) -> int:
        """Instructions of an opcode, whatever its modifiers. Args: family: e.g. `HGMMA`."""
        return sum(count for name, count in self.instructions.items() if name.split(".")[0] == family)


Outcome = Compiled | Refusal


def answers_of(
    jobs: Mapping[str, dict[str, Any]],
    workers: int | None = None,
    answered: Callable[[str], None] | None = None,
    limit_s: float | None = None,
    pool: Pool | None = None,
) -> dict[str, dict[str, Any]]:
    """Have jobs answered, several at a time.

    Args:
        jobs: by name of their results in the cache.
        workers: compiler processes, one per core where None.
        answered: called in this thread with each name in order, once its job is done.
        limit_s: that the compiler may take for one, None: as long as any kernel here takes [s].
        pool: whose compilers answer, None: those of this environment.

    Returns:
        By name: resources of a CTA, and opcode -> how often it stands in the code; with `code`, where it was asked for:
        the listing, where parameters lie, lines of source. Or a reason why there is none of this.
    """
    turns = Turns(pool or POOL)
    threads = ThreadPoolExecutor(max_workers=workers or cores())
    answers: dict[str, dict[str, Any]] = {}
    unlisted: list[str] = []
    try:
        waiting = {key: threads.submit(_answer, turns, key, job, limit_s) for key, job in jobs.items()}
        for key, answer in waiting.items():
            answers[key], new = answer.result()
            if new:
                unlisted.append(key)
            if len(unlisted) == LISTED_TOGETHER:
                _list_and_keep(unlisted, answers, jobs)
                unlisted = []
            if answered:
                answered(key)
        _list_and_keep(unlisted, answers, jobs)
    except BaseException:
        threads.shutdown(wait=False, cancel_futures=True)
        turns.kill()
        raise
    finally:
        threads.shutdown()
    return answers


def _answer(turns: Turns, key: str, job: dict[str, Any], limit_s: float | None) -> tuple[dict[str, Any], bool]:
    """From the cache, else from a compiler. Returns: the answer, and whether it is to be kept."""
    answer = read(cache_folder() / f"{key}.json")
    if answer is not None:
        return answer, False
    if "cubin" in job:
        return kernel_info.answer_of(job), True
    try:
        return turns.answer(job, limit_s), True
    except WorkerDied as death:
        return {"reason": diagnosis.explained(str(death), "", job)}, False


def _list_and_keep(keys: Sequence[str], answers: dict[str, dict[str, Any]], jobs: Mapping[str, dict[str, Any]]) -> None:
    """Add what disassembly says of the code of new answers, for all of them at once, and write them down."""
    compiled = {key: b64decode(answers[key].pop("cubin")) for key in keys if "cubin" in answers[key]}
    asked = [(code, int(jobs[key]["capability"]), _kernel(jobs[key])) for key, code in compiled.items()]
    try:
        listings = disassemble.disassemble(asked)
    except (OSError, SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1:]
        answers |= {key: {"reason": f"the code cannot be disassembled: {' '.join(said)}"} for key in compiled}
        return
    for key, listing in zip(compiled, listings, strict=True):
        answers[key]["instructions"] = listing.opcodes
        if "code" in answers[key]:
            code = answers[key]["code"]
            code["sass"] = disassemble.with_tables(listing.sass, code["literals"])
    for key in keys:
        write(cache_folder() / f"{key}.json", answers[key])


def _kernel(job: Mapping[str, Any]) -> str:
    """Which kernel of a cubin is asked for; empty of one that was compiled here, and is alone in its own."""
    return str(job["name"]) if "cubin" in job else ""


def outcome_of(answer: dict[str, Any], device: Device) -> Outcome:
    """Resources of an answer, without code; what compiles silently and then cannot be launched is refused."""
    if "reason" in answer:
        return Refusal("does not fit", answer["reason"])
    resources = Resources(
        registers_per_thread=answer["registers"],
        smem_bytes_per_cta=answer["smem_bytes"],
        spilled_bytes_per_thread=answer["spilled_bytes"],
        warps_per_cta=answer["num_warps"],
        origin="compiled",
    )
    fit = occupancy(resources, resources.warps_per_cta, device)
    if isinstance(fit, Refusal):
        return fit
    if answer["tmem_columns"] > TMEM_COLUMNS:
        needed = f"tensor memory: a CTA needs {answer['tmem_columns']} columns"
        return Refusal("does not fit", f"{needed}, {device.name} has {TMEM_COLUMNS}")
    return Compiled(resources=resources, instructions=answer["instructions"])


def code_of(
    answer: dict[str, Any],
    job: Mapping[str, Any],
    arguments: Mapping[str, int | float | bool | str],
    grid: tuple[int, int, int],
    resources: Resources,
) -> Code:
    """Machine code of an answer with the arguments of a launch: launches share code, but not these."""
    code = answer["code"]
    x, y, z = job.get("threads", (WARP_THREADS * resources.warps_per_cta, 1, 1))
    threads = x, y, z
    bank = constant_bank(
        int(job["capability"]),
        [Parameter(**parameter) for parameter in code["parameters"]],
        arguments,
        grid=grid,
        threads=threads,
    )
    bank |= {place_of(2, WORD_BYTES * number): word for number, word in enumerate(code["literals"])}
    return Code(sass=code["sass"], constants=bank, lines=_kernel_lines(code["lines"]), threads=threads)


def _kernel_lines(lines: Iterable[Sequence[Any]]) -> tuple[tuple[int, str, int], ...]:
    """Lines outside of the `LIBRARIES`, by address."""
    return tuple(
        sorted((address, file, line) for address, file, line in lines if not any(part in file for part in LIBRARIES))
    )
