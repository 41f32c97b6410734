"""What became of compile jobs, whoever wrote them: answers from the cache, else from compiler processes."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...simulator.device.device import Device
from ...simulator.jobs.pool import cores
from ...simulator.jobs.processes import Died
from ...simulator.launch.program import Code, Resources
from ...simulator.refusal import Refusal
from ...simulator.residency.occupancy import occupancy
from .cache import cache_folder, read, write
from .diagnosis import explained
from .pool import Pool

TMEM_COLUMNS = 512
"""Columns of tensor memory that a CTA can take on sm_100."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A launch that does not compile, or not into something that the device can run.

    Args:
        reason: one line; resources: what it would take, where it does compile.
    """

    reason: str
    resources: Resources | None = None


Outcome = Compiled | Failure


@contextmanager
def answers_of(
    jobs: Mapping[str, dict[str, Any]], workers: int | None = None
) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Have jobs answered, several at a time.

    Args:
        jobs: by name of their results in the cache; workers: compiler processes, one per core where None.

    Yields:
        What gives the answer of a name, once it is there.
    """
    pool = Pool()
    threads = ThreadPoolExecutor(max_workers=workers or cores())
    try:
        answers = {key: threads.submit(_answer, pool, key, job) for key, job in jobs.items()}
        yield lambda key: answers[key].result()
    except BaseException:
        threads.shutdown(wait=False, cancel_futures=True)
        pool.kill()
        raise
    finally:
        threads.shutdown()
        pool.close()


def _answer(pool: Pool, key: str, job: dict[str, Any]) -> dict[str, Any]:
    """From the cache, else from a compiler."""
    path = cache_folder() / f"{key}.json"
    answer = read(path)
    if answer is None:
        try:
            answer = pool.answer(job)
        except Died as death:
            return {"reason": explained(str(death), "", job)}
        write(path, answer)
    return answer


def outcome_of(answer: dict[str, Any], device: Device) -> Outcome:
    """Resources of an answer, without code; what compiles silently and then cannot be launched becomes a failure."""
    if "reason" in answer:
        return Failure(reason=answer["reason"])
    resources = Resources(
        registers_per_thread=answer["registers"],
        smem_bytes_per_cta=answer["smem_bytes"],
        spilled_bytes_per_thread=answer["spilled_bytes"],
        warps_per_cta=answer["num_warps"],
        origin="compiled",
    )
    fit = occupancy(resources, resources.warps_per_cta, device)
    if isinstance(fit, Refusal):
        return Failure(reason=fit.reason, resources=resources)
    if answer["tmem_columns"] > TMEM_COLUMNS:
        columns = answer["tmem_columns"]
        return Failure(reason=f"tensor memory: a CTA needs {columns} columns, {device.name} has {TMEM_COLUMNS}")
    return Compiled(resources=resources, instructions=answer["instructions"])
