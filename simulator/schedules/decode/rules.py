"""Splits of each sequence: as many of all as `splits` says, or by the rule of another program.

A rule is a fact of that program, and the kernel is ours: of a sequence's key tiles each split has an even share, where
some of these programs leave the last one less. CTAs beyond a sequence's splits leave at once.
"""

from collections.abc import Callable, Mapping

from ...device.device import Device
from ...integers import cdiv
from ...launch.split_rules import (
    Decode,
    Splits,
    flash_attention_3_splits,
    flashinfer_plan_splits,
    sglang_triton_splits,
    vllm_triton_mla_splits,
    vllm_triton_splits,
)
from ...problems.attention import AttentionProblem
from ..config import Config
from ..options import Value, number, word

MOST_SPLITS = 128
EVEN = "even"
"""No rule: all sequences have as many splits as `splits` says."""
FLASH_ATTENTION_DIM, FLASH_ATTENTION_TILE = 128, (128, 176)
"""Head dimension, and rows and keys of FlashAttention-3's tile for it without a mask (hopper/tile_size.h); its rule
counts such tiles, so that it is told of no other head."""
USUAL_PAGE = 16
"""Keys of a page where a problem has none: what vLLM takes by default."""
SPLITS = number(
    "splits",
    "CTAs among which the keys of a KV head are split.",
    range(1, MOST_SPLITS + 1),
    f"an integer from 1 to {MOST_SPLITS}",
)
SPLIT_RULE = word(
    "split_rule",
    "By which program's rule each sequence's keys are split, in the place of splits.",
    (EVEN, "vllm", "sglang", "flashinfer", "flash-attention-3"),
    title="rule",
)

Rule = Callable[[AttentionProblem, Decode], Splits]
"""Raises ValueError where the rule says nothing of such a problem."""


def _flash_attention_3(problem: AttentionProblem, decode: Decode) -> Splits:
    if problem.head_dim != FLASH_ATTENTION_DIM or problem.causal:
        raise ValueError(
            f"split_rule = flash-attention-3: known for heads of {FLASH_ATTENTION_DIM} elements without a causal mask"
        )
    block_m, block_n = FLASH_ATTENTION_TILE
    row_bytes = 2 * problem.head_dim * problem.kv_element.size_bytes
    return flash_attention_3_splits(decode, block_m=block_m, block_n=block_n, kv_row_bytes=row_bytes)


RULES: Mapping[str, Rule] = {
    "vllm": lambda problem, decode: vllm_triton_splits(decode, seqlen_q=problem.seqlen_q),
    "sglang": lambda problem, decode: sglang_triton_splits(decode, seqlen_q=problem.seqlen_q),
    "flashinfer": lambda problem, decode: flashinfer_plan_splits(
        decode, head_dim=problem.value_dim, page_size=problem.page or USUAL_PAGE
    ),
    "flash-attention-3": _flash_attention_3,
}
LATENT_RULES: Mapping[str, Rule] = {
    "vllm": lambda problem, decode: vllm_triton_mla_splits(decode),
    "sglang": lambda problem, decode: sglang_triton_splits(decode, seqlen_q=problem.seqlen_q),
}
"""Of latents."""
TITLES = {
    "vllm": "vLLM Triton",
    "sglang": "SGLang Triton",
    "flashinfer": "FlashInfer",
    "flash-attention-3": "FlashAttention-3",
}


def decode_of(problem: AttentionProblem, device: Device) -> Decode:
    """What rules look at."""
    return Decode(
        lengths=problem.key_lengths,
        kv_heads=problem.kv_heads,
        rows=problem.head_group * problem.seqlen_q,
        sms=device.sms,
        window=problem.window,
    )


def splits_of(problem: AttentionProblem, config: Config, device: Device, rules: Mapping[str, Rule] = RULES) -> Splits:
    """Splits of each sequence.

    Args:
        rules: by name, of those that say something of such problems.

    Raises:
        ValueError: more splits than tiles of keys, or no such rule.
    """
    tiles = [cdiv(length, config.block_n) for length in problem.key_lengths]
    if config.split_rule == EVEN:
        if config.splits > max(tiles):
            raise ValueError(
                f"splits = {config.splits}: {problem.seqlen_k} keys are {max(tiles)} tiles of"
                f" {config.block_n}: must be at most one split a tile"
            )
        return (config.splits,) * problem.batch
    if config.split_rule not in rules:
        raise ValueError(
            f"split_rule = {config.split_rule}: says nothing of {problem.KIND}: must be one of {', '.join(rules)}"
        )
    counts = rules[config.split_rule](problem, decode_of(problem, device))
    return tuple(min(count, most, MOST_SPLITS) for count, most in zip(counts, tiles, strict=True))


def conflict(config: Config) -> str | None:
    """A rule says the splits."""
    if config.split_rule != EVEN and config.splits > 1:
        return f"splits = {config.splits}: split_rule {config.split_rule} says it; leave out one of them"
    return None


def by_rules(
    problem: AttentionProblem, config: Config, device: Device, rules: Mapping[str, Rule] = RULES
) -> dict[str, dict[str, Value]]:
    """What each rule would choose in the place of a configuration's splits, for `Schedule.rules`."""
    chosen: dict[str, dict[str, Value]] = {}
    for name in rules:
        asked = config.but(split_rule=name, splits=1)
        try:
            counts = splits_of(problem, asked, device, rules)
        except ValueError:
            continue
        same = len(set(counts)) == 1
        chosen[TITLES[name]] = {"splits": counts[0]} if same else {"split_rule": name, "splits": 1}
    return chosen
