"""What is unlucky about a shape on a device, what it costs, and what would cure it.

In: the ranking of a problem's configurations; out: a line for each mishap of the fastest.
"""

from math import ceil

from .. import units
from ..device.device import Device
from ..display.words import percent
from ..integers import cdiv
from ..prediction.what_helps import Advice
from ..problems.attention import AttentionProblem
from ..simulate import simulate
from .candidate import Candidate
from .explore import Exploration

WORTH_SAYING = 0.05
"""Shares of the work, or of the time, that are smaller are not said."""
FULL_WAVES = 0.95
"""Sequences that are tried together fill this share of the slots of all their waves."""
MOST_SEQUENCES = 8
"""No more sequences are tried together."""


def unlucky_shapes(
    exploration: Exploration, device: Device, l2: str = "cold", overhead: str = "stream"
) -> tuple[Advice, ...]:
    """The mishaps of the fastest configuration; none where nothing fits. Args: l2, overhead: as it was explored."""
    problem = exploration.problem
    if not exploration.ranked or not isinstance(problem, AttentionProblem):
        return ()
    best = exploration.ranked[0]
    tail = _tail(problem, best, device, l2, overhead)
    mishaps = [_padded_head_dim(problem), _ragged_tile(problem, best), tail, _crowded(exploration)]
    return tuple(item for item in mishaps if item)


def _padded_head_dim(problem: AttentionProblem) -> Advice | None:
    """Triton's tiles have powers of two as sides."""
    width = 1 << (problem.head_dim - 1).bit_length()
    if width == problem.head_dim:
        return None
    parts = [1 << place for place in reversed(range(width.bit_length())) if problem.head_dim >> place & 1]
    return Advice(
        cause="head_dim",
        text=f"D = {problem.head_dim} is padded to {width}: {width / problem.head_dim:.2f}x the matrix products",
        cure=f"a kernel that splits D into {' + '.join(map(str, parts))} computes no padding",
    )


def _ragged_tile(problem: AttentionProblem, best: Candidate) -> Advice | None:
    block, rows = int(str(best.config_dict().get("block_m", 1))), problem.seqlen_q
    padding = 1 - rows / (cdiv(rows, block) * block)
    if padding < WORTH_SAYING:
        return None
    return Advice(
        cause="ragged_tile",
        text=f"M = {rows:,} ends {rows % block} rows into a tile of {block}: {percent(padding)} is padding",
        cure=f"prompts packed to multiples of {block} tokens, or chunks of such lengths, have none",
    )


def _tail(problem: AttentionProblem, best: Candidate, device: Device, l2: str, overhead: str) -> Advice | None:
    """SMs without work: less than one wave of CTAs, or a last wave that is not full."""
    launch = best.prediction.launches[-1] if best.prediction else None
    if launch is None or launch.causes["tail"] < WORTH_SAYING:
        return None
    sequences = _filling(launch.waves)
    together = problem.but(batch=sequences * problem.batch)
    others = simulate(
        together,
        schedule=best.schedule,
        config=best.config,
        resources=best.resources,
        device=device,
        l2=l2,
        overhead=overhead,
    )
    share = others.time_s / sequences
    gain = 1 - share / best.costs[0]
    words = f"{sequences} sequences prefilled together take {units.duration(share)} each, a layer"
    return Advice(
        cause="tail",
        text=f"{launch.waves:.2f} waves of CTAs: idle SMs take {percent(launch.causes['tail'])} of the time",
        cure=f"{words}: {percent(gain)} less" if gain > 0 else f"{words}: no cure",
    )


def _filling(waves: float) -> int:
    """How many sequences fill their waves, of those that can be tried. Args: waves: of one sequence."""
    for sequences in range(2, MOST_SEQUENCES):
        if sequences * waves > 1 and sequences * waves / ceil(sequences * waves) >= FULL_WAVES:
            return sequences
    return MOST_SEQUENCES


def _crowded(exploration: Exploration) -> Advice | None:
    """K and V that nearly fill L2, or more, so that HBM reads them again."""
    notes = [note for note, row in exploration.noted_rows.items() if row == 1]
    why = [note for note in notes if note.startswith("K and V")]
    if not why:
        return None
    return Advice(cause="kv_in_l2", text=why[0], cure=notes[-1])
