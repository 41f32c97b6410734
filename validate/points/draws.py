"""Problems that `validate` measures which a generator draws: prefills, masks, chunks, steps of decoding."""

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from ...simulator.problems.problem import Problem
from ...simulator.schedules.contract import Schedule
from .shapes import problem_for

LENGTHS = (512, 1000, 1024, 1536, 2048, 3000, 4096, 6144, 8192, 12288, 16384, 32768, 49152, 65536, 98304, 131072)
HEADS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 128, 256, 512)
"""Sequences times query heads."""
HEADS_OF_A_SEQUENCE = 64
BATCHES = (1, 2, 3, 4, 8, 12, 16, 24, 32, 48, 64, 128)
"""Sequences of a step of decoding."""
SERVED_HEADS = ((64, 8), (32, 8), (28, 4), (40, 8), (8, 1), (16, 1), (32, 32), (16, 16), (32, 4))
"""Query heads and KV heads of models that are served, some divided among GPUs."""
LATENT_HEADS = (16, 32, 64, 128)
"""Query heads over latents: all of DeepSeek-V3, or those of a GPU among several."""
RAGGED_SHARE = 0.2
CHUNKS = (128, 256, 512, 512, 1024, 2048)
"""Queries of a chunk."""
LONGEST_MASKED = 12288
"""Keys under a mask with a pattern: the reference holds a head's scores whole."""
MOST_DOCUMENTS = 12
LONGEST_PAGED = 8192
"""Keys of a sequence in pages: each page is a piece of its own to a simulation."""


def drawn_problems(schedule: Schedule, generator: random.Random) -> list[Problem]:
    """Problems of a schedule, alike but for how many heads, or sequences, there are."""
    return [problem_for(schedule, shape) for shape in DRAWS[schedule.coverage.shapes](generator)]


def _prefills(generator: random.Random) -> Iterator[dict[str, Any]]:
    """Any mask, lengths and groups; as many queries as keys, more or fewer."""
    length = generator.choice(LENGTHS)
    rows = generator.choice((length, length, length, max(128, length // 4), 128, min(2 * length, 1 << 17)))
    fixed: dict[str, Any] = {
        "seqlen_q": rows,
        "seqlen_k": length,
        "head_dim": generator.choice((64, 128)),
        "dtype": generator.choice(("fp16", "fp16", "fp16", "bf16")),
        "causal": rows <= length and generator.random() < 0.4,
    }
    yield from _heads(fixed, generator)


def _heads(fixed: dict[str, Any], generator: random.Random) -> Iterator[dict[str, Any]]:
    """A shape with more and more heads, of one group each."""
    group = generator.choice((1, 1, 4, 8))
    for total in HEADS:
        heads = min(total, HEADS_OF_A_SEQUENCE)
        if not total % heads and not heads % group:
            yield fixed | {"batch": total // heads, "heads": heads, "kv_heads": heads // group}


def _decode_steps(generator: random.Random) -> Iterator[dict[str, Any]]:
    """One query of a sequence, or those of a draft; caches whole, ragged or in pages, some narrow, some windows."""
    length = generator.choice(LENGTHS)
    heads, kv_heads = generator.choice(SERVED_HEADS)
    fixed: dict[str, Any] = {
        "heads": heads,
        "kv_heads": kv_heads,
        "seqlen_q": generator.choice((1, 1, 1, 1, 1, 1, 2, 4)),
        "seqlen_k": length,
        "head_dim": generator.choice((64, 128, 128)),
        "dtype": generator.choice(("fp16", "bf16")),
        "causal": True,
        "window": generator.choice((0, 0, 0, 0, 0, 0, 0, 1024)),
        "kv_dtype": generator.choice(("", "", "", "", "fp8", "i8")),
        "page": generator.choice((0, 0, 0, 0, 16, 64, 256)) if length <= LONGEST_PAGED else 0,
    }
    yield from _batches(fixed, generator)


def _batches(fixed: dict[str, Any], generator: random.Random) -> Iterator[dict[str, Any]]:
    """A shape with more and more sequences, now and then of lengths of their own."""
    length, ragged = fixed["seqlen_k"], generator.random() < RAGGED_SHARE
    for batch in BATCHES:
        shares = [generator.random() for _ in range(batch - 1)]
        lengths = (length, *(max(1, round(share * length)) for share in shares)) if ragged else ()
        yield fixed | {"batch": batch, "lengths": lengths}


def _chunks(generator: random.Random) -> Iterator[dict[str, Any]]:
    """Many queries over the same caches; some with a cap of scores, some with sinks."""
    for shape in _decode_steps(generator):
        length, rows = shape["seqlen_k"], generator.choice(CHUNKS)
        fixed = shape | {"seqlen_q": min(rows, length), "page": 64 if shape["page"] == 16 else shape["page"]}
        yield fixed | {"softcap": generator.choice((0, 0, 0, 0, 0, 50)), "sinks": generator.random() < 0.15}


def _latents(generator: random.Random) -> Iterator[dict[str, Any]]:
    """One query of a sequence, or those of a draft, over latents, whole, ragged or in pages."""
    length = generator.choice(LENGTHS)
    fixed: dict[str, Any] = {
        "heads": generator.choice(LATENT_HEADS),
        "seqlen_q": generator.choice((1, 1, 1, 1, 2, 4)),
        "seqlen_k": length,
        "dtype": generator.choice(("bf16", "bf16", "fp16")),
        "causal": True,
        "page": generator.choice((0, 0, 0, 64, 256)) if length <= LONGEST_PAGED else 0,
    }
    yield from _batches(fixed, generator)


def _patterns(generator: random.Random) -> Iterator[dict[str, Any]]:
    """As many queries as keys under masks of all kinds; some with a cap of scores, sinks, or narrower values."""
    length = generator.choice([size for size in LENGTHS if 1024 <= size <= LONGEST_MASKED])
    cuts = sorted(generator.sample(range(1, length), generator.randrange(1, MOST_DOCUMENTS)))
    documents = "documents:" + ",".join(str(end - begin) for begin, end in pairwise((0, *cuts, length)))
    side = generator.choice((4, 8))
    rows = ["".join(generator.choice("011") for _ in range(side)) for _ in range(side)]
    masks: tuple[dict[str, Any], ...] = (
        {"causal": True},
        {"window": generator.choice((256, 1024))},
        {"mask": f"prefix:{generator.randrange(1, length)}"},
        {"mask": documents},
        {"mask": documents, "causal": True},
        {"mask": "first:4", "window": generator.choice((256, 1024))},
        {"mask": f"band:{generator.choice((128, 512))}"},
        {"mask": f"blocks:{'/'.join(rows)}"} if length % (128 * side) == 0 else {},
    )
    head_dim = generator.choice((64, 128, 128, 192))
    fixed = generator.choice(masks) | {
        "seqlen_q": length,
        "seqlen_k": length,
        "head_dim": head_dim,
        "head_dim_v": 128 if head_dim > 128 else 0,
        "dtype": generator.choice(("fp16", "bf16")),
        "softcap": generator.choice((0, 0, 0, 0, 0, 50)),
        "sinks": generator.random() < 0.15,
    }
    yield from _heads(fixed, generator)


DRAWS: Mapping[str, Callable[[random.Random], Iterator[dict[str, Any]]]] = {
    "prefill": _prefills,
    "masked": _patterns,
    "chunk": _chunks,
    "decode": _decode_steps,
    "latent": _latents,
}
"""Shapes that a schedule's coverage names -> what draws them."""
