"""Which kept kernel stands for a launch: the one of the same code, or of code that differs only in where a CTA begins.

A key names what decides the code. Left out is what hardly does:
fp16 and bf16 compile to the same instructions but for their types, with equal costs;
how many query heads share a KV head, how many score tiles a strip has, and whether scores are scaled,
are a few instructions of hundreds.
How many tiles a strip has is more than that where they are few (`is_rough`).
Where no kernel of the same key is kept, others stand in: the code that masks ragged tiles for one that masks less,
the code of another order of CTAs, of CTAs with one item for those with several, and of keys walked forward, where no
mask makes that another loop. Keys walked back and forth are masked in another loop than whole tiles, so there the code
of ragged tiles stands in for none but ragged ones. docs/accuracy.md says what that costs.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise, product

from ..launch.program import Launch, TileProgram
from ..launch.walk import steps

Constants = dict[str, int | float | bool | str]

HALF = frozenset({"fp16", "bf16"})
LEFT_OUT = frozenset({"head_group", "strip_tiles", "scaled"})
ORDERS = {
    "head-fast": ("m-fast",),
    "m-reversed": ("longest-first", "m-fast"),
    "longest-first": ("m-reversed", "m-fast"),
}
"""Order of CTAs -> those whose code stands in for it."""
RAGGED: Constants = {"whole_m": False, "whole_n": False}
ONE_ITEM: Constants = {"persistent": False}
FORWARD: Constants = {"kv_order": "forward"}
LENGTHS, ANY = ("seqlen_q", "seqlen_k"), "any"
"""Named in keys of kernels that read tiles again: their costs depend on lengths, as L1 serves short tensors the second
time. One of great lengths stands in for others."""
FEWEST_TILES = 8
"""Tiles of a strip of scores in kernels that are kept: 2048 keys, 256 at a time, or more tiles."""
ALIGNED = 16
"""Triton moves several scores at a time where it sees that rows of them have a multiple of this many elements."""


def keys_of(launch: Launch) -> Iterator[str]:
    """Keys of the kernels that can stand for a launch, the best first."""
    constants: Constants = dict(launch.constants)
    order = str(constants.get("cta_order"))
    orders = ({}, *({"cta_order": other} for other in ORDERS.get(order, ())))
    grids = ({}, ONE_ITEM) if constants.get("persistent") else ({},)
    masked = constants.get("causal") or not constants.get("whole_n", True)
    walks = ({}, FORWARD) if constants.get("kv_order") == "sawtooth" and not masked else ({},)
    tiles = ({}, RAGGED) if any(constants.get(name) for name in RAGGED) else ({},)
    known: Sequence[Constants] = ({},)
    if by_length(launch):
        known = {name: launch.arguments[name] for name in LENGTHS}, dict.fromkeys(LENGTHS, ANY)
    for replacements in product(known, walks, grids, orders, tiles):
        replaced = dict(constants)
        for values in replacements:
            replaced |= values
        if not masked and replaced.get("kv_order") == "sawtooth" and replaced.get("whole_n") is False:
            continue  # this code masks every tile, in the other loop
        yield _key(launch, replaced)


def by_length(launch: Launch) -> bool:
    """Whether the keys of a launch name its lengths: first so, then with `any` in their place."""
    return reads_again(launch.program) and set(LENGTHS) <= set(launch.arguments)


def is_rough(launch: Launch) -> bool:
    """Whether a kept kernel stands for a launch with fewer iterations of its loop than any that is kept.

    Where there are few CTAs, or few keys, strips of scores have one to four tiles. Of 16 such launches the costs kept
    were off by 6 % in the median, 141 % at worst, estimates from tiles by 20 % and 82 % (against compiled ones, A100
    and H200, 2026-11-26); where Triton spills in one of the two alone, costs are up to ten times too high. So these
    are compiled where there is a compiler.
    """
    return int(launch.constants.get("strip_tiles", FEWEST_TILES)) < FEWEST_TILES


def file_of(launch: Launch, capability: int) -> str:
    """File in which kernels of a launch's kind are kept, without suffix: e.g. `sm_90/flash2-64`."""
    dim = launch.constants.get("head_dim")
    return f"sm_{capability}/{launch.name}" + (f"-{dim}" if dim else "")


def _key(launch: Launch, constants: Constants) -> str:
    if "pitch" in launch.arguments:
        constants = {**constants, "aligned": launch.arguments["seqlen_k"] % ALIGNED == 0}
    dtype = "half" if launch.dtype in HALF else launch.dtype
    named = " ".join(f"{name}={_text(value)}" for name, value in sorted(constants.items()) if name not in LEFT_OUT)
    return f"{dtype} {launch.num_warps} {launch.num_stages} {named}"


def _text(value: int | float | bool | str) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def reads_again(program: TileProgram) -> bool:
    """Whether a CTA walks the same tiles once more for every turn of a loop around, so that L1 may serve them again."""
    for step, around in steps(program.body):
        for tile in step.loads:
            variables = dict(tile.row).keys() | dict(tile.col).keys()
            moves = [loop.counter in variables for loop in around]
            if any(later and not sooner for sooner, later in pairwise(moves)):
                return True
    return False
