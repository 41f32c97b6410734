"""Planted mistakes: each is a piece of a correct example in `softmax_laws/examples.py`, replaced by another."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilesight.softmax_laws import examples


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A mistake.

    Args:
        where: example that has it; name: what is wrong; old, new: the piece.
        law: one that must see it; dtype: under test.
    """

    where: str
    name: str
    old: str
    new: str
    law: str
    dtype: str

    def source(self) -> str:
        """The examples with the mistake in one of them. Raises: ValueError: the piece is not there, or not once."""
        text = Path(examples.__file__).read_text("utf-8")
        head, begin, rest = text.partition("\nclass Stream:" if self.where == "Stream" else f"\ndef {self.where}(")
        body, end, tail = rest.partition("\n\n\n")
        if body.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.old!r} stands {body.count(self.old)} times in {self.where}")
        return head + begin + body.replace(self.old, self.new) + end + tail

    def build(self) -> Any:
        """The implementation with the mistake in it."""
        space: dict[str, Any] = {"__name__": "softmax_mutant"}
        exec(compile(self.source(), self.name, "exec"), space)
        return space[self.where]


def _mutant(where: str, name: str, old: str, new: str, law: str = "oracle", dtype: str = "fp32") -> Mutant:
    return Mutant(where=where, name=name, old=old, new=new, law=law, dtype=dtype)


# Pieces that several mistakes change.
BEGIN = "np.full(len(scores), -np.inf, scores.dtype)"
HIGHER = "higher = np.maximum(self.max, scores.max(axis=1))"
P = "p = np.exp(scores - base[:, None])"
SUM = "self.sum * alpha + p.sum(axis=1)"
OUTPUT = "self.output * alpha[:, None] + p @ values"
LSE = "log_sum_exp(self.max, self.sum)"
HIDDEN = "count - rows, scores, -np.inf)"
RANGE = "range(0, count, block_n)"
KEY = "key = np.arange(first, min(first + block_n, count))"
SCALE = "(scale * log2_e)"
HIGHEST = "higher = np.maximum(maximum, scores.max(axis=-1))"
WEIGHTED = "output * alpha[..., None] + p @ values[..., key, :]"
RETURNED = "log_sum_exp(maximum / log2_e, total)"
SUMS = "scale_1 * sum_1 + scale_2 * sum_2"
OUTPUTS = "scale_1[:, None] * output_1 + scale_2[:, None] * output_2"
SWEEP = "range(0, scores.shape[-1], block)"
ROW_MAX = "higher = np.maximum(maximum, part.max(axis=-1))"
DROPPED = "range(0, max(count // block_n, 1) * block_n, block_n)"
PAST = "key = np.minimum(np.arange(first, first + block_n), count - 1)"
HALF = ".astype(np.float16).astype(scores.dtype)"

MUTANTS = tuple(_mutant(*fields) for fields in (
    # Online softmax over a stream of blocks.
    ("Stream", "no rescale of the sum", SUM, "self.sum + p.sum(axis=1)"),
    ("Stream", "no rescale of the sum, seen by order", SUM, "self.sum + p.sum(axis=1)", "key order"),
    ("Stream", "no rescale of the output", OUTPUT, "self.output + p @ values"),
    ("Stream", "no rescale of the output, seen by blocks", OUTPUT, "self.output + p @ values", "block size"),
    ("Stream", "rescale only when the maximum falls", "alpha = np.exp(self.max - base)",
     "alpha = np.where(self.max > base, np.exp(self.max - base), 1.0).astype(scores.dtype)"),
    ("Stream", "rescale upside down", "np.exp(self.max - base)", "np.exp(base - self.max)"),
    ("Stream", "maximum begins at 0", BEGIN, "np.zeros(len(scores), scores.dtype)"),
    ("Stream", "maximum begins at 0, seen by a shift", BEGIN, "np.zeros(len(scores), scores.dtype)", "shift"),
    ("Stream", "maximum begins at -100", BEGIN, "np.full(len(scores), -100.0, scores.dtype)"),
    ("Stream", "-1e6 in place of -inf", HIGHER, f"scores = np.maximum(scores, np.float32(-1e6))\n        {HIGHER}",
     "masked rows"),
    ("Stream", "-1e6 in place of -inf, seen by low scores", HIGHER,
     f"scores = np.maximum(scores, np.float32(-1e6))\n        {HIGHER}", "low scores"),
    ("Stream", "maximum of the block alone", HIGHER, "higher = scores.max(axis=1)", "running maximum"),
    ("Stream", "maximum of all rows", HIGHER, "higher = np.maximum(self.max, scores.max())"),
    ("Stream", "no maximum", HIGHER, "higher = np.zeros(len(scores), scores.dtype)"),
    ("Stream", "no guard for rows of -inf", "np.where(higher == -np.inf, 0.0, higher)", "higher", "masked rows"),
    ("Stream", "guard that takes low scores for masked ones", "higher == -np.inf", "higher < -5e3", "any order"),
    ("Stream", "maximum is not kept", "self.max = higher", "self.max = higher * 0", "any order"),
    ("Stream", "sum of the last block alone", SUM, "p.sum(axis=1)", "convex hull"),
    ("Stream", "first key twice in the sum", "np.zeros(len(scores), scores.dtype)",
     "np.exp(scores[:, 0] - scores.max(axis=1))", "block size"),
    ("Stream", "sum in fp16", SUM, f"({SUM}){HALF}", "split and merge"),
    ("Stream", "output in fp16", OUTPUT, f"({OUTPUT}){HALF}", "oracle", "fp16"),
    ("Stream", "weights rounded before the sum", P, f"{P}{HALF}", "oracle", "fp16"),
    ("Stream", "weights rounded before the sum, seen by LSE", P, f"{P}{HALF}", "LSE and output"),
    ("Stream", "values without their sign", "p @ values", "p @ np.abs(values)", "scaling of V"),
    ("Stream", "values of a block in reverse", "p @ values", "p @ values[::-1]", "key order"),
    ("Stream", "output is not divided by the sum", "ratio(self.output, self.sum)", "self.output"),
    ("Stream", "LSE without the maximum", LSE, "np.log(self.sum)", "positive sum"),
    ("Stream", "LSE without the maximum, seen by the output", LSE, "np.log(self.sum)", "LSE and output"),
    ("Stream", "LSE in base 2", LSE, f"{LSE} * 1.442695", "repeated keys"),
    ("Stream", "join forgets the other's sum", "merge(mine, theirs) if",
     "merge(mine, (theirs[0], theirs[1] * 0, theirs[2])) if", "any order"),
    ("Stream", "join keeps its own maximum", "merge(mine, theirs) if", "(mine[0], *merge(mine, theirs)[1:]) if",
     "any order"),
    # Attention over blocks of keys.
    ("attention", "exp in place of exp2 with a folded scale", "p = np.exp2(", "p = np.exp("),
    ("attention", "scale forgotten", SCALE, "log2_e"),
    ("attention", "scale twice", SCALE, "(scale * scale * log2_e)", "LSE and output"),
    ("attention", "scores rounded to fp16", SCALE,
     f"{SCALE}\n        scores = scores.astype(np.float16).astype(q.dtype)"),
    ("attention", "last partial block dropped", RANGE, DROPPED),
    ("attention", "last partial block dropped, seen by blocks", RANGE, DROPPED, "block size"),
    ("attention", "last partial block read past", KEY, PAST),
    ("attention", "last partial block read past, seen by order", KEY, PAST, "key order"),
    ("attention", "last key forgotten", RANGE, "range(0, max(count - 1, 1), block_n)"),
    ("attention", "causal off by one: sees the next key", "key <= np", "key <= 1 + np", "causal prefix"),
    ("attention", "causal off by one: misses its own key", "key <= np", "key < np", "causal prefix"),
    ("attention", "causal aligned to the first key", "[:, None] + count - rows", "[:, None]", "causal prefix"),
    ("attention", "mask forgotten after the first block", "if causal:", "if causal and first == 0:", "causal prefix"),
    ("attention", "masked with -1e6", "count - rows, scores, -np.inf)", "count - rows, scores, -1e6)", "masked rows"),
    ("attention", "masked with -1e6, seen by low scores", HIDDEN, HIDDEN.replace("-np.inf", "-1e6"), "low scores"),
    ("attention", "masked with -1e6 in fp16", HIDDEN, HIDDEN.replace("-np.inf", "-1e6 - 0.0"), "low scores", "fp16"),
    ("attention", "masked with -1e4", HIDDEN, HIDDEN.replace("-np.inf", "-1e4"), "low scores"),
    ("attention", "masked with -1e4, seen by the prefix", HIDDEN, HIDDEN.replace("-np.inf", "-1e4"), "causal prefix"),
    ("attention", "masked with the least of fp16", HIDDEN, HIDDEN.replace("-np.inf", "-65504.0"), "low scores", "fp16"),
    ("attention", "masked with the least of fp32", HIDDEN,
     HIDDEN.replace("-np.inf", "np.finfo(np.float32).min"), "masked rows"),
    ("attention", "no guard for rows without keys", "np.where(higher == -np.inf, 0.0, higher)", "higher",
     "masked rows"),
    ("attention", "NaN passes for hidden", HIGHEST,
     f"scores = np.where(np.isnan(scores), -np.inf, scores)\n        {HIGHEST}", "NaN and +inf"),
    ("attention", "weights rounded before the sum", ".astype(queries.dtype)\n        total",
     ".astype(np.float16).astype(queries.dtype)\n        total", "split and merge", "fp16"),
    ("attention", "output in fp16", WEIGHTED, f"({WEIGHTED}){HALF}", "oracle", "fp16"),
    ("attention", "values of another head", "p @ values[..., key, :]", "p @ values[..., ::-1, :, :][..., key, :]"),
    ("attention", "LSE in base 2", RETURNED, "log_sum_exp(maximum, total)", "split and merge"),
    ("attention", "LSE with the sum in base 2", RETURNED, "maximum / log2_e + np.log2(total)", "repeated keys"),
    ("attention", "LSE without the sum", RETURNED, "maximum / log2_e", "repeated keys"),
    ("attention", "something left to chance", "return ratio(output, total)",
     "output += np.random.random() * 1e-3\n    return ratio(output, total)", "determinism"),
    # Merges of two states.
    ("merge", "ignores the sum of one side", SUMS, "scale_1 * sum_1 + sum_2 * 0", "merge: commutative"),
    ("merge", "sums without scales", SUMS, "sum_1 + sum_2"),
    ("merge", "outputs without scales", OUTPUTS, "output_1 + output_2"),
    ("merge", "mean of the outputs", OUTPUTS, f"({OUTPUTS}) / 2", "merge: associative"),
    ("merge", "maximum of the first", "np.maximum(max_1, max_2)", "max_1", "running maximum"),
    ("merge", "minimum", "np.maximum(max_1, max_2)", "np.minimum(max_1, max_2)", "merge: identity"),
    ("merge", "no guard for two states of no keys", "np.where(maximum == -np.inf, 0.0, maximum)", "maximum",
     "merge: identity"),
    ("merge", "scales swapped", "scale_1, scale_2 = np", "scale_2, scale_1 = np", "hidden keys"),
    # Softmax of rows.
    ("softmax", "maximum of all rows", ROW_MAX, "higher = np.maximum(maximum, part.max())"),
    ("softmax", "no maximum", ROW_MAX, "higher = maximum * 0 + 1"),
    ("softmax", "sum of all rows", "total = total * np", "total = total.sum() * np"),
    ("softmax", "no rescale of the sum", "total * np.exp(maximum - base)", "total", "convex hull"),
    ("softmax", "last partial block dropped", SWEEP, "range(0, max(block, scores.shape[-1] // block * block), block)",
     "convex hull"),
    ("softmax", "-inf is not 0", "weights = ratio(", "scores = np.maximum(scores, -1e4)\n    weights = ratio(",
     "hidden keys"),
    ("softmax", "-inf is not 0 beside low scores", "weights = ratio(",
     "scores = np.maximum(scores, -1e6)\n    weights = ratio(", "low scores"),
    ("softmax", "computed in fp16", "scores = inner(x)", "scores = x", "oracle", "fp16"),
    ("softmax", "weights rounded before they are divided", "ratio(np.exp(scores - base[..., None]), total)",
     "ratio(np.exp(scores - base[..., None]).astype(x.dtype).astype(scores.dtype), total)", "oracle", "fp16"),
))  # fmt: skip
