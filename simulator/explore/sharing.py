"""Ways to share sequences among GPUs of one host over lengths: which is fastest, from which length on.

Attention of each part is simulated by itself, in the configuration that is fastest at the smallest part; of few
queries, whose splits depend on how many CTAs there are, in the one that suits each part by its schedule's rule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from ..arguments import instance, several, whole
from ..device.device import Device
from ..jobs.pool import Progress, run_all
from ..operations.cost_model import as_profiled_s
from ..operations.families.collectives import HOST_GPUS
from ..operations.priced import KernelEstimate
from ..operations.sequence_step import SequenceStep, check_shares, sequence_step, ways, why_not
from ..problems.attention import AttentionProblem
from ..problems.problem import EXAMPLE
from ..resolve import asked_config
from ..schedules.config import Config
from ..schedules.registry import DEFAULT_SCHEDULE, find_schedule
from ..store.pipelines import answers
from .candidate import Candidate
from .fastest import along, plan, shortlist, survey_problem
from .trial import Trial, TrialSettings, ranking, with_code, with_launches

SCHEMA = "tilesight.sharing/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A way to share at a length.

    Args:
        seqlen: of keys; gpus; way: `ring`, `gather`, `heads`, `keys`, or `alone` on one GPU.
        step: of the GPU that takes longest, the first or the last; None: `reason` says why.
    """

    seqlen: int
    gpus: int
    way: str
    step: SequenceStep | None
    reason: str = ""

    @property
    def time_s(self) -> float:
        """From its begin to its end; infinite: it does not run [s]."""
        return self.step.timeline.end_s if self.step else inf

    def to_dict(self) -> dict[str, Any]:
        """Its object in `compare --gpus --json`, a row of `--csv`."""
        step = self.step
        figures = {
            "time_s": step and step.timeline.end_s,
            "communication_s": step and step.timeline.communication_s,
            "exposed_s": step and step.timeline.exposed_s,
            "link_bytes": step and step.link_bytes,
            "hbm_bytes": step and step.hbm_bytes,
            "l2_bytes": step and step.l2_bytes,
            "peak_memory_bytes": step and step.peak_bytes,
        }
        return {"seqlen": self.seqlen, "gpus": self.gpus, "way": self.way, **figures, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Ways to share sequences over lengths, the shortest first.

    Args:
        problem: the first of the problems, the others differ in length; device_name: in the catalogue, or a path.
        left_out: schedule -> why it does not compute a part; notes: remarks, one line each.
    """

    problem: AttentionProblem
    device: Device
    device_name: str
    shared: tuple[Shared, ...]
    left_out: dict[str, str]
    notes: tuple[str, ...] = ()

    def best(self, seqlen: int, gpus: int) -> Shared | None:
        """The fastest at a length; None: none runs."""
        able = [it for it in self.shared if (it.seqlen, it.gpus) == (seqlen, gpus) and it.step]
        return min(able, key=lambda it: it.time_s, default=None)

    def to_dict(self) -> dict[str, Any]:
        """The object that `compare --gpus --json` prints."""
        shape = {key: value for key, value in self.problem.to_dict().items() if key != "seqlen_k"}
        return {
            "schema": SCHEMA,
            "device": self.device_name,
            "problem": shape,
            "shared": [it.to_dict() for it in self.shared],
            "left_out": self.left_out,
            "notes": list(self.notes),
        }


@answers()
def share(
    problem: AttentionProblem,
    seqlens: Sequence[int],
    gpus: Sequence[int],
    settings: TrialSettings,
    *,
    schedule: str | Sequence[str] = DEFAULT_SCHEDULE,
    progress: Progress | None = None,
    **fixed: int | str,
) -> Sharing:
    """Hold ways to share sequences among GPUs against each other.

    Args:
        problem: everything but the lengths; with fewer queries than keys these are as they are, and all GPUs have them.
        seqlens: of keys, and of queries where there are as many; gpus: of one host.
        schedule, progress, fixed: as `compare`.

    Raises:
        ValueError: unknown name, a value that is not allowed, or lengths that are not shared evenly.
    """
    instance("problem", problem, AttentionProblem, EXAMPLE)
    gpu = settings.device
    counts = sorted({whole("gpus", count) for count in several("gpus", gpus, "numbers, such as [2, 4, 8]")})
    if counts[-1] > HOST_GPUS:
        raise ValueError(f"gpus = {counts[-1]}: must be at most {HOST_GPUS}, the GPUs of one host")
    lengths = sorted({whole("seqlens", length) for length in several("seqlens", seqlens, "lengths")})
    few = problem.seqlen_q < problem.seqlen_k
    problems = [problem.but(seqlen_k=it, seqlen_q=problem.seqlen_q if few else it) for it in lengths]
    asked = [(it, count, way) for it in problems for count in counts for way in (ways(it) if count > 1 else ("alone",))]
    for it, count, _ in asked:
        check_shares(it, count)
    parts = _parts(asked, gpu)
    space, left_out = plan(parts[-1], schedule, fixed, compiles=settings.resources_of is not None)
    chosen = {} if few else _chosen(problems[-1], parts[0], space, settings, progress)

    jobs = [(part, chosen.get(item) or _suited(part, item, fixed, gpu)) for part in parts for item in space]
    built = [with_launches(Trial(candidate=job), part, gpu) for part, job in jobs]
    trials = list(zip(jobs, with_code(built, parts[0], settings), strict=True))

    def answered(part: AttentionProblem) -> KernelEstimate:
        some = [trial for (of, _), trial in trials if of == part]
        return _estimate(part, ranking(part, replace(settings, workers=1), some)[0], gpu)

    known = dict(zip(parts, run_all(answered, parts, settings.workers, progress), strict=True))
    made = tuple(_shared(it, count, way, gpu, known) for it, count, way in asked)
    return Sharing(problem=problems[0], device=gpu, device_name=gpu.name, shared=made, left_out=left_out)


def _suited(part: AttentionProblem, schedule: str, fixed: Mapping[str, int | str], gpu: Device) -> Candidate:
    """A schedule in the configuration that suits a part, but for what is fixed."""
    item = find_schedule(schedule)
    named = Config(**{key: fixed[key] for key in fixed if key in item.options})
    config = asked_config(part, item, named, gpu, "compiled")
    return Candidate(schedule=schedule, config=config, options=tuple(item.options))


def _chosen(
    longest: AttentionProblem,
    least: AttentionProblem,
    space: Mapping[str, list[Candidate]],
    settings: TrialSettings,
    progress: Progress | None,
) -> dict[str, Candidate]:
    """Schedules, each in the configuration that is fastest at the least part."""
    survey = survey_problem(longest)
    jobs = [Trial(candidate=job) for some in space.values() if len(some) > 1 for job in some]
    ranked = ranking(survey, settings, with_code(jobs, survey, settings), progress)
    lists = {name: shortlist(name, some, ranked, least, settings) for name, some in space.items()}
    return {name: replace(some[0], config=along([least], settings, some)[0].config) for name, some in lists.items()}


def _ranks(problem: AttentionProblem, gpus: int) -> tuple[int, ...]:
    """The first GPU, and the last, where they do not do the same."""
    return (0, gpus - 1) if problem.causal and gpus > 1 and problem.seqlen_q == problem.seqlen_k else (0,)


def _parts(asked: Sequence[tuple[AttentionProblem, int, str]], gpu: Device) -> list[AttentionProblem]:
    """All that is to be simulated, what has least to do first."""
    parts: dict[AttentionProblem, None] = {}

    def attend(part: AttentionProblem) -> KernelEstimate:
        parts[part] = None
        return KernelEstimate(name="attention", source="simulated", time_s=0.0, bound_by="")

    for problem, gpus, way in asked:
        if not why_not(problem, way, gpus):
            for rank in _ranks(problem, gpus):
                sequence_step(problem, way, gpus, rank, gpu, attend)
    return sorted(parts, key=lambda part: (part.matmul_flop, part.key))


def _shared(
    problem: AttentionProblem, gpus: int, way: str, gpu: Device, known: dict[AttentionProblem, KernelEstimate]
) -> Shared:
    reason, slowest = why_not(problem, way, gpus), None
    if not reason:
        steps = [sequence_step(problem, way, gpus, rank, gpu, known.__getitem__) for rank in _ranks(problem, gpus)]
        reason = next((step.reason for step in steps if step.reason), "")
        slowest = max(steps, key=lambda step: step.timeline.end_s)
        if not reason and slowest.peak_bytes > gpu.hbm_bytes:
            reason = "out of memory"
    return Shared(seqlen=problem.seqlen_k, gpus=gpus, way=way, step=None if reason else slowest, reason=reason)


def _estimate(part: AttentionProblem, best: Candidate, gpu: Device) -> KernelEstimate:
    """What a part takes in its fastest configuration, as a kernel beside others."""
    made = best.prediction
    if made is None:
        return KernelEstimate(name="attention", source="refused", time_s=0.0, bound_by="", reason=best.reason)
    total = made.total
    tensors = sum((part.compulsory.read_bytes, part.compulsory.write_bytes))
    return KernelEstimate(
        name=best.schedule,
        source="simulated",
        time_s=sum(as_profiled_s(it.traffic.time_s - it.overhead_s, gpu) for it in made.launches),
        bound_by=made.bottleneck,
        hbm_read_bytes=total.hbm_read_bytes,
        hbm_write_bytes=total.hbm_write_bytes,
        l2_bytes=total.l2_read_bytes + total.l2_write_bytes,
        scratch_bytes=max(0, made.peak_memory_bytes - tensors),
        note="" if not best.is_estimated else "estimated from tile sizes",
    )
