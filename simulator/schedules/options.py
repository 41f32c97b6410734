"""What a schedule leaves open: an option's values, its default, and what the help and the tables say of it.

A schedule declares its options; the command line, the configuration space and the tables come from there.
Options that several schedules take are declared here once, and each schedule says its own default and space.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..arguments import shown

Value = int | str
POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of schedules.

    Args:
        name: as in a `Config`; help: one line for the command line; title: of its column in tables.
        values: those that are allowed, all numbers or all words; allowed: the same in words.
        default: where the user names none.
        space: values to try in `explore`; the default alone where empty.
        usual: a value that needs no mention; None where every value is worth it.
        in_triton: the value that Triton's compiler gives, where it leaves no choice.
    """

    name: str
    help: str
    title: str
    values: Sequence[Value]
    allowed: str
    default: Value
    space: tuple[Value, ...] = ()
    usual: Value | None = None
    in_triton: Value | None = None

    @property
    def is_number(self) -> bool:
        """Whether its values are whole numbers."""
        return isinstance(self.values[0], int)

    def check(self, value: object) -> None:
        """Raises: ValueError: the value is not allowed; the text names option, value and what is allowed."""
        if not isinstance(value, (int, str)) or isinstance(value, bool) or value not in self.values:
            raise ValueError(f"{self.name} = {shown(value)}: must be {self.allowed}")


def number(name: str, help_: str, values: Sequence[int], allowed: str, **rest: object) -> Option:
    """An option whose values are whole numbers; the default is the first, unless given."""
    given = {"title": name, "default": values[0], **rest}
    return Option(name=name, help=help_, values=values, allowed=allowed, **given)  # type: ignore[arg-type]


def word(name: str, help_: str, values: tuple[str, ...], **rest: object) -> Option:
    """An option whose values are words; the default is the first, unless given, and needs no mention."""
    given = {"title": name, "default": values[0], "usual": values[0], **rest}
    return Option(name=name, help=help_, values=values, allowed=f"one of {', '.join(values)}", **given)  # type: ignore[arg-type]


def declared(*options: Option) -> Mapping[str, Option]:
    """Options by name, for `Schedule.options`."""
    return {option.name: option for option in options}


def tiled(option: Option, default: Value, *space: Value) -> Option:
    """An option with a schedule's own default and space."""
    return replace(option, default=default, space=space)


BLOCK_M = number("block_m", "Rows of a tile of scores (queries).", POWERS[4:], "a power of two from 16 to 1024")
BLOCK_N = number("block_n", "Columns of a tile of scores (keys).", POWERS[4:], "a power of two from 16 to 1024")
NUM_WARPS = number("num_warps", "Warps per CTA.", POWERS[:6], "one of 1, 2, 4, 8, 16, 32", title="warps")
NUM_STAGES = number(
    "num_stages", "Stages of the pipeline that loads K and V.", range(1, 9), "an integer from 1 to 8", title="stages"
)
CTA_ORDER = word(
    "cta_order",
    "Order in which CTAs start.",
    ("m-fast", "m-reversed", "head-fast", "longest-first"),
    title="CTA order",
)
"""`m-fast`: the query tiles of a head follow each other; `head-fast`: the heads of a query tile; `m-reversed` and
`longest-first`: the same two, the last query tiles first, which have the longest causal rows."""
KV_ORDER = word("kv_order", "Direction in which query tiles read K and V.", ("forward", "sawtooth"), title="K/V order")
"""`sawtooth`: odd query tiles walk K and V backwards."""
PERSISTENT = number(
    "persistent",
    "CTAs per SM of a persistent kernel; 0: not persistent.",
    range(33),
    "an integer from 0 to 32 (CTAs per SM)",
    title="persist.",
    usual=0,
)
WARP_SPLIT = word(
    "warp_split",
    "How the warps of a CTA split a tile: by queries (q) or by keys (k).",
    ("q", "k"),
    title="split",
    in_triton="q",
)
"""`q`: rows, as FlashAttention-2; `k`: keys, as FlashAttention-1."""
