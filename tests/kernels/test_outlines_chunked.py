"""chunked_flash: what its machine code reads and multiplies, held against closed forms."""

from dataclasses import replace

import pytest
from schedules import contract
from support.outlines import followed
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.closed_form.roofline import roofline
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.walk import tally
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import simulate

import tilesight

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))

H200 = load_device("h200")
CHUNK = AttentionProblem(batch=2, heads=8, kv_heads=2, seqlen_q=96, seqlen_k=1000, head_dim=64, causal=True)
CHUNKS = {
    "causal": {},
    "whole": {"causal": False},
    "window": {"window": 100},
    "ragged": {"lengths": (1000, 333)},
    "paged": {"lengths": (1000, 64), "page": 32},
}
TILES = {"block_m": 64, "block_n": 32}


def rows_read(problem: AttentionProblem, block_m: int, block_n: int) -> int:
    """Rows of K that all tiles read together: whole tiles between the first and the last key that a row sees."""
    rows = problem.head_group * problem.seqlen_q
    total = 0
    for length in problem.key_lengths:
        before = length - problem.seqlen_q
        for first in range(0, rows, block_m):
            queries = first // problem.head_group, (min(first + block_m, rows) - 1) // problem.head_group
            seen = [before + query + 1 if problem.causal else length for query in queries]
            begin = max(seen[0] - problem.window, 0) // block_n * block_n if problem.window else 0
            total += max(0, min(-(-seen[1] // block_n) * block_n, length) - begin)
    return problem.kv_heads * total


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("asked", CHUNKS.values(), ids=list(CHUNKS))
def test_keys_are_read_once_for_each_tile_of_packed_queries_that_sees_them(
    asked: dict[str, object], splits: int
) -> None:
    """Whatever the splits; Q once a split; exact where nothing is loaded ahead."""
    problem = replace(CHUNK, **asked)
    launches = followed(problem, "chunked_flash", num_stages=1, splits=splits, **TILES)
    contract.accesses_stay_inside(launches)
    contract.nothing_is_read_before_it_is_written(launches)
    written = contract.counts(launches, "store")
    assert {name: int(written[name].sum()) for name in ("O", "LSE")} == {
        "O": 2 * 8 * 96 * 64 * 2,
        "LSE": 2 * 8 * 96 * 4,
    }
    assert max(count.max() for count in written.values()) == 1
    exact = tally(launches[0].program).load_bytes
    assert exact["K"] == exact["V"] == rows_read(problem, 64, 32) * 64 * 2
    assert exact["Q"] == splits * 2 * 8 * 96 * 64 * 2


def test_a_chunk_of_a_long_cache_reads_what_the_closed_form_says() -> None:
    """512 queries after 32k keys of Llama-3-8B: K and V once for each tile of 64, so 32 times; above the roofline."""
    problem = AttentionProblem(
        batch=1, heads=32, kv_heads=8, seqlen_q=512, seqlen_k=32768, head_dim=128, dtype="bf16", causal=True
    )
    config = Config(block_m=64, block_n=64, num_warps=4, num_stages=3, splits=1)
    resources_of = tilesight.compiler(problem, "h200", workers=1)
    total = simulate(problem, schedule="chunked_flash", config=config, resources_of=resources_of).total
    row_bytes = 128 * 2
    read_bytes = 2 * rows_read(problem, 64, 64) * row_bytes + 32 * 512 * row_bytes
    assert total.smem_fill_bytes == pytest.approx(read_bytes, rel=1e-3)
    assert total.executed_flop == pytest.approx(4 * 128 * 64 * rows_read(problem, 64, 64), rel=1e-3)
    assert problem.compulsory.read_bytes <= total.hbm_read_bytes <= 1.25 * problem.compulsory.read_bytes
    assert total.time_s > roofline(problem, H200).bound_s


def test_what_it_is_not_for_is_refused_with_what_is() -> None:
    """A tile of queries, and a prefill without a cache; pages of a prompt are a cache."""
    few = "128 queries of a KV head .* must be more than 128; fewer are a step of decoding"
    for problem, text in (
        (replace(CHUNK, seqlen_q=32), few),
        (replace(CHUNK, seqlen_k=96), "no keys before those of the queries .* try a schedule of prefill"),
    ):
        with pytest.raises(ValueError, match=text):
            simulate(problem, schedule="chunked_flash")
    assert followed(replace(CHUNK, seqlen_k=96, page=16), "chunked_flash", **TILES)
