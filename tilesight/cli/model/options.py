"""Options that take the shape of attention from a model: `--model NAME|config.json`, `--tp N`, `--layers KIND`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from ...simulator.explore.space import schedules_named
from ...simulator.models.catalogue import load_model, models
from ...simulator.models.model import KINDS, Model
from ...simulator.problems.attention import AttentionProblem
from ...simulator.problems.problem import Problem
from ..given import Given, refuse_unread
from ..groups import Group, option, typed_as, word
from ..output import BadInput, bad_input
from ..shapes import ShapeOptions

Shape = TypeVar("Shape", bound=ShapeOptions)


class ModelOptions(Group):
    """The model that heads, head dimension, element type and mask are of."""

    model: str | None = option(
        None,
        "Take heads, head dimension, dtype and mask of a model, e.g. llama-3-70b; or of a path that ends in .json.",
        "NAME|FILE",
        words=models,
    )
    tp: int | None = option(None, "GPUs that share the heads of --model.  [default: 1]", "N")
    layers: str | None = word(None, "Which layers of --model: with its window, or without.  [default: global]", *KINDS)

    def fill(
        self, problem: Shape, kind: type[Problem], schedules: Sequence[str], typed: Given
    ) -> tuple[Shape, tuple[str, ...]]:
        """The options of the problem with those of the model where the user typed none, and remarks on them.

        Args:
            schedules: names of those that are to solve it: where all take values narrower than keys, they are so.

        Raises:
            BadInput: the model or its share is not known or not answered, or an option changes nothing.
        """
        if self.model is None:
            refuse_unread(typed, ["--tp", "--layers"], "without --model")
            return problem, ()
        if not issubclass(kind, AttentionProblem):
            raise BadInput(f"--model {self.model}: has layers of attention, not of {kind.KIND}; leave it out")
        refuse_unread(typed, ["--causal"], "with --model, whose attention is causal")
        model = model_given(self.model, "--")
        with bad_input("tp", "layers", "model"):
            fields = model.fields(
                self.layers,
                1 if self.tp is None else self.tp,
                kind,
                padded=not all("head_dim_v" in schedule.reads for schedule in schedules_named(schedules, kind)),
            )
        typed_fields = [name for name in fields if typed_as(name) in typed]
        filled = {name: value for name, value in fields.items() if name not in typed_fields}
        remarks = [
            f"{typed_as(name)} {problem.values[name]} is yours, where {model.name} has {fields[name] or 'none'}"
            for name in typed_fields
        ]
        notes = (self._said(model), *remarks, *(f"{model.name}: {note}" for note in model.notes))
        return replace(problem, values={**problem.values, **filled}), notes

    def _said(self, model: Model) -> str:
        """What the answer is of."""
        tp, layers = self.tp or 1, model.kind(self.layers)
        count, total = model.count(layers), model.global_layers + model.local_layers
        window = f"a window of {model.window}"
        if count == total:
            of = f"a layer of {model.name}; all its {total} are alike" + (
                f", with {window}" if layers == "local" else ""
            )
        elif layers == "global":
            of = f"a global layer of {model.name}: {count} of {total}; --layers local: the others, with {window}"
        else:
            of = f"a local layer of {model.name}, with {window}: {count} of {total}; --layers global: the others"
        if tp == 1:
            return of
        heads, kv_heads = model.shard(tp)
        return f"{of}; {tp} GPUs share its heads: {heads} of {model.heads}, and {kv_heads} of {model.kv_heads} KV heads"


def model_given(name: str, before: str = "") -> Model:
    """The model of that name, or of a config.json. Raises: BadInput: there is none; the text begins with `before`."""
    with bad_input(before=before):
        return load_model(name)
