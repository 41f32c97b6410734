"""Models for people: the catalogue, and attention of all layers of one on one device or several."""

from collections.abc import Mapping, Sequence

from .. import units
from ..display.render import Column, bound_text, plural, table, times, wrapped
from ..explore.candidate import ERROR_FRACTIONS
from ..explore.serving import LayersAnswer, ServingAnswer
from ..models.catalogue import source
from ..models.model import Model
from ..prediction.prediction import Prediction
from .explore import short_text

UNKNOWN = "not counted"


def models_text(models: Mapping[str, Model], refused: Sequence[str], width: int = 120, color: bool = False) -> str:
    """What `tilesight model` prints without a name. Args: models: by name; refused: why others are."""
    every = list(models.values())

    def column(title: str, cells: list[str], left: bool = False) -> Column:
        return Column(title=title, cells=cells, left=left)

    columns = [
        column("model", list(models), left=True),
        column("heads", [str(model.heads) for model in every]),
        column("KV heads", [str(model.kv_heads) for model in every]),
        column("D", [str(model.head_dim) for model in every]),
        column("dtype", [model.dtype for model in every], left=True),
        column("layers", [_layers(model) for model in every], left=True),
        column("KV of a token", [units.capacity(_kv_of_a_token(model)) for model in every]),
        column("weights", [units.capacity(model.weight_bytes) if model.weight_bytes else UNKNOWN for model in every]),
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


def _layers(model: Model) -> str:
    kinds = {"global": "global", "local": f"local (window {model.window:,})"}
    return " + ".join(f"{model.count(kind)} {kinds[kind]}" for kind in model.kinds)


def serving_text(answers: Sequence[ServingAnswer], width: int = 120, color: bool = False) -> str:
    """What `tilesight model NAME` prints. Args: answers: one a device, of one question."""
    asked = answers[0].asked
    model, (heads, kv_heads) = asked.model, asked.model.shard(asked.tp)
    of = f"{heads} of {model.heads} heads, {kv_heads} of {model.kv_heads} KV heads" if asked.tp > 1 else (
        f"{plural(heads, 'head')}, {plural(kv_heads, 'KV head')}"
    )  # fmt: skip
    share = f" on each of {asked.tp} GPUs" if asked.tp > 1 else ""
    lines = [f"{model.name}{share}: {of}, D={model.head_dim} {model.dtype}; layers: {_layers(model)}"]
    lines += [f"Note: {note}" for note in asked.notes]
    lines += [f"Note: {note}" for answer in answers[:1] for note in answer.notes]
    rows = [(answer, kind) for answer in answers for kind in answer.kinds]
    tokens, sequences = f"{asked.seqlen:,} tokens", plural(asked.batch, "sequence")
    text = ["", f"Prefill of one sequence of {tokens}: attention, in the fastest configuration"]
    text += [_prefill_table(rows, width, color)]
    text += ["", f"A decode step of {sequences} of {tokens}: attention, at least (KV read once from HBM)"]
    text += [_decode_table(rows, width, color)]
    text += ["", "Device memory", _memory_table(answers, width, color)]
    unlucky = [
        f"  {answer.device_name}, {kind.layers} layers: {item.line}" for answer, kind in rows for item in kind.unlucky
    ]
    text += ["", "Unlucky shapes" if unlucky else "Unlucky shapes: none", *wrapped(unlucky, width)]
    if len(answers) > 1:
        text += ["", *wrapped([_which(answers)], width)]
    return "\n".join([*wrapped(lines, width), *text])


def _prefill_table(rows: Sequence[tuple[ServingAnswer, LayersAnswer]], width: int, color: bool) -> str:
    def of_best(kind: LayersAnswer, text: str) -> str:
        prediction: Prediction | None = kind.best.prediction if kind.best else None
        if kind.best is None or prediction is None:
            return "-"
        if text == "rate":
            return f"{prediction.total.matmul_flop / prediction.time_s / 1e12:.0f}"
        return bound_text(prediction) if text == "bound" else short_text(kind.prefill, kind.best)

    def duration(time_s: float) -> str:
        return "does not fit" if time_s == float("inf") else units.duration(time_s)

    columns = [
        *_first_columns(rows),
        Column(title="a layer", cells=[duration(kind.prefill_s) for _, kind in rows]),
        Column(title="these layers", cells=[duration(kind.count * kind.prefill_s) for _, kind in rows]),
        Column(title="all layers", cells=[duration(answer.prefill_s) for answer, _ in rows]),
        Column(title="TFLOP/s", cells=[of_best(kind, "rate") for _, kind in rows], rank=1),
        Column(title="bound by", cells=[of_best(kind, "bound") for _, kind in rows], left=True),
        Column(title="configuration", cells=[of_best(kind, "config") for _, kind in rows], left=True, rank=2),
    ]
    return table(_alike_left_out(columns, rows), width, color)


def _decode_table(rows: Sequence[tuple[ServingAnswer, LayersAnswer]], width: int, color: bool) -> str:
    columns = [
        *_first_columns(rows),
        Column(title="KV read, a layer", cells=[units.traffic(kind.decode_bytes) for _, kind in rows]),
        Column(title="a layer", cells=[units.duration(kind.decode_s) for _, kind in rows]),
        Column(title="these layers", cells=[units.duration(kind.count * kind.decode_s) for _, kind in rows]),
        Column(title="all layers", cells=[units.duration(answer.decode_s) for answer, _ in rows]),
        Column(title="bound by", cells=["hbm" for _ in rows], left=True),
    ]
    return table(_alike_left_out(columns, rows), width, color)


def _first_columns(rows: Sequence[tuple[ServingAnswer, LayersAnswer]]) -> list[Column]:
    return [
        Column(title="device", cells=[answer.device_name for answer, _ in rows], left=True),
        Column(title="layers", cells=[f"{kind.count} {kind.layers}" for _, kind in rows], left=True),
    ]


def _alike_left_out(columns: list[Column], rows: Sequence[tuple[ServingAnswer, LayersAnswer]]) -> list[Column]:
    """Without the column that repeats another where all layers are of one kind."""
    several = any(len(answer.kinds) > 1 for answer, _ in rows)
    return [column for column in columns if several or column.title != "these layers"]


def _memory_table(answers: Sequence[ServingAnswer], width: int, color: bool) -> str:
    asked = answers[0].asked
    weights = units.capacity(asked.shard_weight_bytes) if asked.shard_weight_bytes else UNKNOWN
    fit = [_fit_text(answer) for answer in answers]
    columns = [
        Column(title="device", cells=[answer.device_name for answer in answers], left=True),
        Column(title="has", cells=[units.capacity(answer.device.hbm_bytes) for answer in answers]),
        Column(title="weights", cells=[weights for _ in answers]),
        Column(title="KV of a sequence", cells=[units.capacity(asked.kv_bytes) for _ in answers]),
        Column(title=f"KV of {asked.batch}", cells=[units.capacity(asked.batch * asked.kv_bytes) for _ in answers]),
        Column(title="sequences, at most", cells=fit),
    ]
    return table(columns, width, color)


def _fit_text(answer: ServingAnswer) -> str:
    """How many sequences fit."""
    if answer.sequences is None:
        return "-"
    if answer.asked.shard_weight_bytes > answer.device.hbm_bytes:
        return "0: weights do not fit"
    short = answer.sequences < answer.asked.batch
    return f"{answer.sequences:,}" + (f": too few for {answer.asked.batch:,}" if short else "")


def _which(answers: Sequence[ServingAnswer]) -> str:
    """Which device is faster, at what, and by how much."""
    by_prefill, by_decode = (sorted(answers, key=key) for key in (_prefill_s, _decode_s))
    ratio, error = _prefill_s(by_prefill[-1]) / _prefill_s(by_prefill[0]), ERROR_FRACTIONS["compiled"]
    words = [
        f"prefill {by_prefill[0].device_name}, {times(ratio)} as fast as the slowest"
        if ratio > 1 + error
        else f"prefill within {100 * error:.0f} % of each other",
        f"decode {by_decode[0].device_name}, {times(_decode_s(by_decode[-1]) / _decode_s(by_decode[0]))} as fast",
    ]
    if all(answer.sequences is not None for answer in answers):
        most = max(answers, key=lambda answer: answer.sequences or 0)
        words.append(f"most sequences {most.device_name}, {most.sequences:,}")
    return f"Which device: {'; '.join(words)}"


def _prefill_s(answer: ServingAnswer) -> float:
    return answer.prefill_s


def _decode_s(answer: ServingAnswer) -> float:
    return answer.decode_s
