"""What grows with the problem, and what does not depend on how it is cut up."""

from dataclasses import asdict, replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from laws.cases import Case, cases, stepped
from tilesight.simulator.launch.walk import begin_alike
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import written_schedules
from tilesight.simulator.schedules.tiles import strip_tiles

laws = settings(max_examples=100)
MADE_ONCE = ("l2_write_bytes", "smem_read_bytes", "smem_write_bytes")
"""Of the mask of `unfused`, which is the same for the whole batch."""
EXACT = (
    "l2_write_bytes",
    "smem_read_bytes",
    "smem_write_bytes",
    "matmul_flop",
    "executed_flop",
    "other_flop",
    "exp_count",
)


def _strip(case: Case) -> int:
    return strip_tiles(case.problem, case.config.block_m, case.config.block_n)


@laws
@given(case=stepped())
def test_twice_the_batch_is_twice_the_work(case: Case) -> None:
    """Operations, stores, shared-memory bytes and loads double exactly."""
    if case.config.named().get("persistent"):
        case = replace(case, config=case.config.but(persistent=0))
    doubled = replace(case, problem=replace(case.problem, batch=2 * case.problem.batch))
    # With more CTAs, strips of score tiles may get longer.
    assume(_strip(case) == _strip(doubled))
    assume(all(begin_alike(launch.program) for launch in (*case.launches, *doubled.launches)))
    single, double = case.simulate().total, doubled.simulate().total
    for name in EXACT:
        if case.schedule == "unfused" and name in MADE_ONCE:
            continue
        assert getattr(double, name) == 2 * getattr(single, name), name
    loads = [total.smem_fill_bytes + total.l1_hit_bytes for total in (single, double)]
    assert loads[1] == 2 * loads[0]


@laws
@given(case=cases())
def test_batch_and_heads_change_places_freely(case: Case) -> None:
    """Without shared KV heads, B sequences of H heads are H sequences of B heads."""
    problem = replace(case.problem, kv_heads=case.problem.heads)
    swapped = replace(problem, batch=problem.heads, heads=problem.batch, kv_heads=problem.batch)
    first, second = (replace(case, problem=shape).simulate() for shape in (problem, swapped))
    assert first.launches == second.launches


@laws
@given(case=cases())
def test_half_precision_types_are_alike(case: Case) -> None:
    """fp16 and bf16 have the same size and the same rates."""
    first, second = (replace(case, problem=replace(case.problem, dtype=dtype)).simulate() for dtype in ("fp16", "bf16"))
    assert asdict(first.total) == asdict(second.total)


@laws
@given(
    heads=st.integers(1, 6),
    seqlen=st.integers(1, 4),
    schedule=st.sampled_from(sorted(written_schedules())),
    data=st.data(),
)
def test_a_warm_l2_reads_nothing_where_all_fits(heads: int, seqlen: int, schedule: str, data: st.DataObject) -> None:
    """Inputs, scratch and output of the run before are all there."""
    case = data.draw(cases(schedules=(schedule,)))
    problem = AttentionProblem(batch=1, heads=heads, seqlen_q=32 * seqlen, seqlen_k=32 * seqlen, head_dim=16)
    case = replace(case, problem=problem, device=replace(case.device, l2_bytes=1 << 24))
    cold, warm = (case.simulate(l2=l2).total for l2 in ("cold", "warm"))
    assert warm.hbm_read_bytes == 0 < cold.hbm_read_bytes
    assert warm.hbm_write_bytes == cold.hbm_write_bytes == 0
