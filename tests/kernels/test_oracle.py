"""The oracle of validated kernels: right outputs pass, one wrong element anywhere does not, in parts as in whole."""

from dataclasses import replace
from math import inf, log

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.validate.points.point import Point, runnable_config

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from tilesight.kernels.reference import attention
from tilesight.validate.measure import oracle
from tilesight.validate.measure.oracle import oracle_error, parts

PROBLEM = AttentionProblem(batch=2, heads=4, kv_heads=2, seqlen_q=96, seqlen_k=128, head_dim=32)
H200 = load_device("h200")


def launch_of(schedule: str, problem: AttentionProblem) -> Launch:
    """The last launch of a schedule."""
    return Point(schedule=schedule, problem=problem, config=runnable_config(schedule)).launches(H200)[-1]


def tensors_of(problem: AttentionProblem, score_roundings: int = 0) -> dict[str, torch.Tensor]:
    """Inputs and right outputs, as a kernel of fp16 would compute them, one slab a head."""
    generator = torch.Generator().manual_seed(0)

    def draw(heads: int, rows: int) -> torch.Tensor:
        return torch.randn((problem.batch, heads, rows, problem.head_dim), generator=generator).half()

    q, k = draw(problem.heads, problem.seqlen_q), draw(problem.kv_heads, problem.seqlen_k)
    v = draw(problem.kv_heads, problem.seqlen_k)
    answer = attention(q, k, v, causal=problem.causal, working=True, score_roundings=score_roundings)
    named = {"Q": q, "K": k, "V": v, "O": answer.o, "LSE": answer.lse.float()[..., None]}
    return {name: tensor.flatten(0, 1).clone() for name, tensor in named.items()}


@pytest.fixture(params=[None, 4000], ids=["whole", "parts"], autouse=True)
def _part_scores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything at once, and a few rows at a time."""
    if request.param:
        monkeypatch.setattr(oracle, "PART_SCORES", request.param)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rows", [96, 128, 200])
def test_right_outputs_pass(causal: bool, rows: int) -> None:
    """With grouped heads, M above, at and below N: under a mask then with rows that see nothing."""
    problem = replace(PROBLEM, causal=causal, seqlen_q=rows)
    assert 0 < oracle_error("flash2", problem, launch_of("flash2", problem), tensors_of(problem)) <= 1


@pytest.mark.parametrize("place", [(0, 0, 0), (3, 40, 31), (7, 95, 5)])
@pytest.mark.parametrize("name", ["O", "LSE"])
def test_one_wrong_element_is_seen(name: str, place: tuple[int, int, int]) -> None:
    """In the first head, the last, or between."""
    tensors = tensors_of(PROBLEM)
    tensors[name][place[0], place[1], place[2] if name == "O" else 0] += 0.05
    assert oracle_error("flash2", PROBLEM, launch_of("flash2", PROBLEM), tensors) > 1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_never_right(value: float) -> None:
    """One NaN among thousands of right elements."""
    tensors = tensors_of(PROBLEM)
    tensors["O"][5, 17, 3] = value
    assert oracle_error("flash2", PROBLEM, launch_of("flash2", PROBLEM), tensors) == inf


def test_rows_that_see_no_key_must_be_zero() -> None:
    """Under a causal mask with M > N."""
    problem = replace(PROBLEM, causal=True, seqlen_q=200)
    tensors = tensors_of(problem)
    assert (tensors["O"][0, :72] == 0).all()
    tensors["O"][2, 3, 1] = 1e-3
    assert oracle_error("flash2", problem, launch_of("flash2", problem), tensors) == inf


def test_a_head_that_reads_another_key_head_is_seen() -> None:
    """Query heads of a group share theirs, and no other."""
    tensors = tensors_of(PROBLEM)
    tensors["K"] = tensors["K"].roll(1, 0)
    assert oracle_error("flash2", PROBLEM, launch_of("flash2", PROBLEM), tensors) > 1


def test_flash1_tells_its_statistics_by_maximum_and_sum() -> None:
    """LSE = (max + log2 sum) ln 2 must be right as well."""
    tensors = tensors_of(PROBLEM)
    lse = tensors.pop("LSE")
    largest = torch.full_like(lse, 2.0)
    tensors |= {"MAX": largest, "L": torch.exp2(lse / log(2) - largest)}
    launch = launch_of("flash1", PROBLEM)
    assert oracle_error("flash1", PROBLEM, launch, tensors) <= 1
    tensors["L"][1, 2] *= 1.01
    assert oracle_error("flash1", PROBLEM, launch, tensors) > 1


def test_a_softmax_is_judged_row_by_row() -> None:
    """Also where scores are X, and there is no attention."""
    problem = replace(PROBLEM, kv_heads=4, head_dim=64)
    x = torch.randn((8, 96, 128), generator=torch.Generator().manual_seed(1)).half()
    tensors = {"X": x, "Y": torch.softmax(x.float(), -1).half()}
    launch = launch_of("online_softmax", problem)
    assert oracle_error("online_softmax", problem, launch, tensors) <= 1
    tensors["Y"][7, 95, 3] *= 1.1
    assert oracle_error("online_softmax", problem, launch, tensors) > 1


def test_parts_cover_all_rows_where_there_are_few() -> None:
    """Each row of each head once."""
    seen = {(b, h, row) for b, h, first, last in parts(PROBLEM, 1000) for row in range(first, last)}
    count = sum(last - first for _, _, first, last in parts(PROBLEM, 1000))
    assert len(seen) == count == 2 * 4 * 96


def test_parts_of_large_problems_are_spread() -> None:
    """The first and the last rows always, no more scores than allowed, several heads."""
    drawn = parts(PROBLEM, 1000, 10_000)
    assert drawn[0] == (0, 0, 0, 7)
    assert drawn[-1] == (1, 3, 91, 96)
    assert sum((last - first) * PROBLEM.seqlen_k for _, _, first, last in drawn) <= 10_000
    assert len({(batch, head) for batch, head, _, _ in drawn}) > 4
    assert parts(replace(PROBLEM, seqlen_q=1 << 17, seqlen_k=1 << 17))[-1][3] == 1 << 17


def test_every_runnable_schedule_is_judged() -> None:
    """Its outputs are among those that the oracle knows."""
    for schedule in ("naive", "unfused", "flash1", "flash2", "flash2_tma"):
        assert find_schedule(schedule)
        names = {tensor.name for tensor in launch_of(schedule, PROBLEM).program.tensors if tensor.role == "output"}
        assert names <= {"O", "LSE", "L", "MAX"}
