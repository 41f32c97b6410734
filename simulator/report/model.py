"""Models for people: the catalogue, and attention of all layers of one on one device or several."""

from collections.abc import Mapping, Sequence
from operator import attrgetter

from .. import units
from ..display.render import Column, bound_text, config_text, plural, table, times, wrapped
from ..explore.candidate import ERROR_FRACTIONS, Candidate
from ..explore.explore import Exploration
from ..explore.lengths import ESTIMATED
from ..explore.ranking import options_that_vary
from ..explore.serving import LayersAnswer, ServingAnswer
from ..models.catalogue import source
from ..models.model import Model
from .operations.splits import splits_text, whole_text

UNKNOWN = "not counted"
AT_LEAST = ">= "
"""Stands before a time that is a lower bound."""
Row = tuple[ServingAnswer, LayersAnswer]


def models_text(models: Mapping[str, Model], refused: Sequence[str], width: int = 120, color: bool = False) -> str:
    """What `tilesight model` prints without a name. Args: models: by name; refused: why others are."""
    every = list(models.values())

    columns = [
        Column("model", list(models), left=True),
        Column("heads", [str(model.heads) for model in every]),
        Column("KV heads", [str(model.kv_heads) for model in every]),
        Column("D", [_dims(model) for model in every]),
        Column("dtype", [model.dtype for model in every], left=True),
        Column("layers", [_layers(model) for model in every], left=True),
        Column("KV of a token", [units.capacity(_kv_of_a_token(model)) for model in every]),
        Column("weights", [units.capacity(model.weight_bytes) if model.weight_bytes else UNKNOWN for model in every]),
    ]
    return "\n".join([table(columns, width, color), *wrapped(["", *refused], width)])


def models_dict(models: Mapping[str, Model]) -> dict[str, object]:
    """The same as data, with the source of each."""
    return {
        "schema": "tilesight.models/1",
        "models": [
            {
                "name": name,
                "heads": model.heads,
                "kv_heads": model.kv_heads,
                "head_dim": model.head_dim,
                "latent_dim": model.latent_dim,
                "rope_dim": model.rope_dim,
                "dtype": model.dtype,
                "layers": {kind: model.count(kind) for kind in model.kinds},
                "window": model.window or None,
                "weight_bytes": model.weight_bytes or None,
                "source": source(name),
                "notes": list(model.notes),
            }
            for name, model in models.items()
        ],
    }


def _kv_of_a_token(model: Model) -> int:
    """Of all layers, before windows forget [B]."""
    return sum(model.count(kind) * model.kv_bytes(kind, 1) for kind in model.kinds)


def _dims(model: Model) -> str:
    return (
        f"{model.head_dim} (latents of {model.latent_dim} + {model.rope_dim})"
        if model.latent_dim
        else f"{model.head_dim}"
    )


def _layers(model: Model) -> str:
    kinds = {"global": "global", "local": f"local (window {model.window:,})"}
    return " + ".join(f"{model.count(kind)} {kinds[kind]}" for kind in model.kinds)


def serving_dict(answers: Sequence[ServingAnswer]) -> dict[str, object]:
    """What `tilesight model --json` prints. Args: answers: one a device, of one question."""
    asked = answers[0].asked
    model = asked.model
    return {
        "schema": "tilesight.model/1",
        "model": model.name,
        "tp": asked.tp,
        "ep": asked.ep,
        "pp": asked.pp,
        "batch": asked.batch,
        "seqlen": asked.seqlen,
        "kv_dtype": asked.kv_dtype or model.dtype,
        "layers": {kind: model.count(kind) for kind in model.kinds},
        "devices": [answer.to_dict() for answer in answers],
        "notes": list(asked.notes),
    }


def serving_text(answers: Sequence[ServingAnswer], width: int = 120, color: bool = False) -> str:
    """What `tilesight model NAME` prints. Args: answers: one a device, of one question."""
    asked = answers[0].asked
    model, (heads, kv_heads) = asked.model, asked.model.shard(asked.tp)
    of = f"{heads} of {model.heads} heads, {kv_heads} of {model.kv_heads} KV heads" if asked.tp > 1 else (
        f"{plural(heads, 'head')}, {plural(kv_heads, 'KV head')}"
    )  # fmt: skip
    share = f" on each of {asked.split.gpus} GPUs" if asked.split.gpus > 1 else ""
    cache = f", KV cache {asked.kv_dtype}" if asked.kv_dtype else ""
    lines = [f"{model.name}{share}: {of}, D={_dims(model)} {model.dtype}{cache}; layers: {_layers(model)}"]
    lines += [f"Note: {note}" for note in asked.notes]
    lines += [f"Note: {note}" for answer in answers for note in (*answer.notes, *answer.missing)]
    lines = list(dict.fromkeys(lines))
    rows = [(answer, kind) for answer in answers for kind in answer.kinds]
    tokens, sequences = f"{asked.seqlen:,} tokens", plural(asked.decode_problem(model.kinds[0]).batch, "sequence")
    text = ["", f"Prefill of one sequence of {tokens}: attention, {_fastest(rows, 'prefill')}{_prefill_title(rows)}"]
    text += [_prefill_table(rows, width, color)]
    text += ["", f"A decode step of {sequences} of {tokens}: attention{_decode_title(answers)}"]
    text += [_decode_table(rows, width, color)]
    text += ["", whole_text({answer.device_name: answer.whole for answer in answers}, width, color)]
    text += ["", "Device memory", _memory_table(answers, width, color)]
    unlucky = [
        f"  {answer.device_name}, {kind.layers} layers: {item.text}; {item.cure}"
        for answer, kind in rows
        for item in kind.unlucky
    ]
    text += ["", "Unlucky shapes" if unlucky else "Unlucky shapes: none", *wrapped(unlucky, width)]
    for answer in answers:
        text += ["", splits_text(answer.splits, answer.device_name, width, color)] if answer.splits else []
    if len(answers) > 1:
        text += ["", *wrapped([_which(answers)], width)]
    return "\n".join([*wrapped(lines, width), *text])


def _fastest(rows: Sequence[Row], name: str) -> str:
    """In which configuration. Args: name: `prefill` or `decode`."""
    cut = any(name in kind.untried for _, kind in rows)
    return "in the fastest configuration" + (" of those that were tried in time" if cut else "")


def _prefill_title(rows: Sequence[Row]) -> str:
    if not any(kind.best and kind.best.is_estimated for _, kind in rows):
        return ""
    return f" ({ESTIMATED}: from tile sizes, mean error {100 * ERROR_FRACTIONS['tiles']:.0f} %)"


def _decode_title(answers: Sequence[ServingAnswer]) -> str:
    bounds = [answer.decode_is_bound for answer in answers]
    if not any(bounds):
        return f", {_fastest([(answer, kind) for answer in answers for kind in answer.kinds], 'decode')}"
    which = "" if all(bounds) else f"; of {AT_LEAST.strip()}"
    return f"{which}, at least: KV read once from HBM"


def _prefill_table(rows: Sequence[Row], width: int, color: bool) -> str:
    best = [kind.best for _, kind in rows]
    columns = [
        *_first_columns(rows),
        Column("a layer", [_duration(kind.prefill_s, kind.best) for _, kind in rows]),
        Column("these layers", [_duration(kind.count * kind.prefill_s, kind.best) for _, kind in rows]),
        Column("all layers", [_duration(answer.prefill_s) for answer, _ in rows]),
        Column("TFLOP/s", [_rate(item) for item in best], rank=1),
        *_last_columns(best, [kind.prefill for _, kind in rows], "-"),
    ]
    return table(_alike_left_out(columns, rows), width, color)


def _decode_table(rows: Sequence[Row], width: int, color: bool) -> str:
    best = [kind.best_decode for _, kind in rows]

    def duration(time_s: float, is_bound: bool) -> str:
        return (AT_LEAST if is_bound else "") + units.duration(time_s)

    bound = [kind.best_decode is None for _, kind in rows]
    layer = [duration(kind.decode_s, kind.best_decode is None) for _, kind in rows]
    layers = [duration(kind.count * kind.decode_s, kind.best_decode is None) for _, kind in rows]
    columns = [
        *_first_columns(rows),
        Column("KV read, a layer", [units.traffic(kind.decode_bytes) for _, kind in rows], rank=2),
        Column("a layer", layer),
        Column("these layers", layers),
        Column("all layers", [duration(answer.decode_s, answer.decode_is_bound) for answer, _ in rows]),
    ]
    if not all(bound):
        columns.append(Column("KV read at least", [units.duration(kind.decode_bound_s) for _, kind in rows], rank=1))
    columns += _last_columns(best, [kind.decode for _, kind in rows], "hbm")
    return table(_alike_left_out(columns, rows), width, color)


def _duration(time_s: float, of: Candidate | None = None) -> str:
    if time_s == float("inf"):
        return "-"
    return (f"{ESTIMATED} " if of and of.is_estimated else "") + units.duration(time_s)


def _rate(item: Candidate | None) -> str:
    prediction = item.prediction if item else None
    return f"{prediction.total.matmul_flop / prediction.time_s / 1e12:.0f}" if prediction else "-"


def _chosen(exploration: Exploration, item: Candidate) -> dict[str, object]:
    """The options of which there was a choice, and the usual ones where there was none."""
    varied = options_that_vary(exploration.candidates) or ["block_m", "block_n", "num_warps", "num_stages"]
    return {name: value for name, value in item.config_dict().items() if name in varied}


def _last_columns(best: Sequence[Candidate | None], of: Sequence[Exploration | None], other: str) -> list[Column]:
    """What binds the fastest, and which configuration it is. Args: other: what binds where there is none."""
    bound = [bound_text(item.prediction) if item and item.prediction else other for item in best]
    configs = [
        f"{item.schedule} {config_text(_chosen(exploration, item))}" if exploration and item else ""
        for exploration, item in zip(of, best, strict=True)
    ]
    columns = [Column("bound by", bound, left=True)]
    return [*columns, Column("configuration", configs, left=True, rank=1)] if any(configs) else columns


def _first_columns(rows: Sequence[Row]) -> list[Column]:
    return [
        Column("device", [answer.device_name for answer, _ in rows], left=True),
        Column("layers", [f"{kind.count} {kind.layers}" for _, kind in rows], left=True),
    ]


def _alike_left_out(columns: list[Column], rows: Sequence[Row]) -> list[Column]:
    """Without the column that repeats another where all layers are of one kind."""
    several = any(len(answer.kinds) > 1 for answer, _ in rows)
    return [column for column in columns if several or column.title != "these layers"]


def _memory_table(answers: Sequence[ServingAnswer], width: int, color: bool) -> str:
    asked = answers[0].asked
    weights = units.capacity(asked.shard_weight_bytes) if asked.shard_weight_bytes else UNKNOWN
    fit = [_fit_text(answer) for answer in answers]
    columns = [
        Column("device", [answer.device_name for answer in answers], left=True),
        Column("has", [units.capacity(answer.device.hbm_bytes) for answer in answers]),
        Column("weights", [weights for _ in answers]),
        Column("KV of a sequence", [units.capacity(asked.kv_bytes) for _ in answers]),
        Column(f"KV of {asked.each_batch}", [units.capacity(asked.each_batch * asked.kv_bytes) for _ in answers]),
        Column("sequences, at most", fit),
    ]
    return table(columns, width, color)


def _fit_text(answer: ServingAnswer) -> str:
    """How many sequences fit."""
    if answer.sequences is None:
        return "-"
    if answer.asked.shard_weight_bytes > answer.device.hbm_bytes:
        return "0: weights do not fit"
    batch = answer.asked.each_batch
    return f"{answer.sequences:,}" + (f": too few for {batch:,}" if answer.sequences < batch else "")


def _which(answers: Sequence[ServingAnswer]) -> str:
    """Which device is faster, at what, and by how much."""
    by_prefill, by_decode = (sorted(answers, key=attrgetter(name)) for name in ("prefill_s", "decode_s"))
    ratio, error = by_prefill[-1].prefill_s / by_prefill[0].prefill_s, ERROR_FRACTIONS["compiled"]
    words = [
        f"prefill {by_prefill[0].device_name}, {times(ratio)} as fast as the slowest"
        if ratio > 1 + error
        else f"prefill within {100 * error:.0f} % of each other",
        f"decode {by_decode[0].device_name}, {times(by_decode[-1].decode_s / by_decode[0].decode_s)} as fast",
    ]
    if all(answer.sequences is not None for answer in answers):
        most = max(answers, key=lambda answer: answer.sequences or 0)
        words.append(f"most sequences {most.device_name}, {most.sequences:,}")
    return f"Which device: {'; '.join(words)}"
