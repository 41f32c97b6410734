"""Training steps: which passes go together, what autograd keeps between them, and where memory runs out."""

from dataclasses import replace

import pytest
from closed_forms import training_memory
from closed_forms.flash import flash1_backward, flash1_forward
from closed_forms.standard import Eager, standard_backward, standard_forward
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.explore.fastest import Point
from tilesight.simulator.explore.lengths import Scaling
from tilesight.simulator.explore.training import best_step, memory_of, partners, training_step, why_apart
from tilesight.simulator.explore.training_lengths import along_lengths
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.attention_backward import AttentionBackwardProblem
from tilesight.simulator.report.training import step_scaling_text, step_scalings_dict
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import Prediction, launches_of, simulate

import tilesight

H200 = load_device("h200")
SHAPE = {"batch": 2, "heads": 8, "kv_heads": 4, "seqlen_q": 1024, "seqlen_k": 1024, "head_dim": 64}
FORWARD, BACKWARD = AttentionProblem(**SHAPE), AttentionBackwardProblem(**SHAPE)


def launches(schedule: str, **options: int) -> tuple[Launch, ...]:
    problem = BACKWARD if schedule.endswith("backward") else FORWARD
    return launches_of(problem, schedule, Config(**options), H200)


def predicted(schedule: str, time_s: float, **options: int) -> Prediction:
    """A prediction of a schedule with a time that is made up; of one launch."""
    like = simulate(FORWARD, cost="tiles")
    (launch,) = like.launches
    config = Config(**options)
    problem = BACKWARD if schedule.endswith("backward") else FORWARD
    timed = replace(launch, traffic=replace(launch.traffic, time_s=time_s))
    return replace(like, schedule=schedule, problem=problem, config=config, launches=(timed,))


@pytest.mark.parametrize(
    ("forward", "backward", "options", "lacking"),
    [
        ("flash2", "flash_backward", {}, ""),
        ("flash2", "naive_backward", {"recomputed": 1}, ""),
        ("flash2", "naive_backward", {"recomputed": 0}, "P"),
        ("naive", "naive_backward", {"recomputed": 0}, ""),
        ("naive", "flash_backward", {}, "LSE"),
        ("flash1", "flash_backward", {}, "LSE"),
    ],
)
def test_a_backward_pass_follows_what_has_made_its_inputs(
    forward: str, backward: str, options: dict[str, int], lacking: str
) -> None:
    """P where it is not made again, else LSE; dO comes from the rest of the model."""
    assert why_apart(launches(forward), launches(backward, **options)) == lacking


def test_a_schedule_brings_the_first_of_the_other_pass_that_goes_with_it() -> None:
    """Baselines go with each other; FlashAttention-1 keeps l and m, which no backward pass here reads."""
    pairs = {"flash2": ["flash_backward"], "naive": ["naive_backward"], "unfused": ["naive_backward"], "flash1": []}
    assert {name: partners([name], AttentionBackwardProblem) for name in pairs} == pairs
    assert partners(["flash_backward", "naive_backward"], AttentionProblem) == ["flash2", "naive"]


def test_memory_is_what_the_closed_forms_count() -> None:
    """Q, K, V, O and P of standard attention, LSE in place of l and m of flash's; P, dP and dS at the peak."""
    standard = standard_forward(Eager()), standard_backward(Eager())
    naive = memory_of(launches("naive"), launches("naive_backward"))
    assert naive.kept_bytes == training_memory.kept_bytes(FORWARD, *standard)
    rows_bytes = 2 * 8 * 1024 * 4
    assert naive.peak_bytes == pytest.approx(training_memory.peak_bytes(FORWARD, *standard), rel=0.1)
    flash = memory_of(launches("flash2"), launches("flash_backward"))
    papers = flash1_forward(FORWARD, 256), flash1_backward(FORWARD, 256)
    assert flash.kept_bytes == training_memory.kept_bytes(FORWARD, *papers) - rows_bytes
    # The papers' kernel makes delta on the way; ours stores it.
    assert flash.peak_bytes == training_memory.peak_bytes(FORWARD, *papers)


def test_the_best_step_is_of_passes_that_go_together() -> None:
    """Not the fastest of each where the one reads what the other does not make."""
    forwards = [predicted("flash2", 1.0), predicted("naive", 4.0)]
    backwards = [predicted("naive_backward", 1.0, recomputed=0), predicted("flash_backward", 5.0)]
    backwards.append(predicted("naive_backward", 6.0, recomputed=1))
    step = best_step(forwards, backwards, H200)
    assert (step.forward.schedule, step.backward.schedule, step.time_s) == ("naive", "naive_backward", 5.0)
    assert best_step(forwards[:1], backwards, H200).time_s == 6.0
    with pytest.raises(ValueError, match="flash2 does not make P, which naive_backward reads"):
        training_step(forwards[0], backwards[0], H200)
    with pytest.raises(ValueError, match="no configuration of one of the passes fits"):
        best_step(forwards, [], H200)


def test_a_step_is_of_both_passes_of_a_shape_on_a_device() -> None:
    """Anything else is refused in one line; the device is the one that the predictions name."""
    forward, backward = predicted("naive", 4.0), predicted("naive_backward", 5.0, recomputed=0)
    step = tilesight.training_step(forward, backward)
    assert isinstance(step, tilesight.TrainingStep)
    assert (step.time_s, step.memory) == (9.0, training_step(forward, backward, H200).memory)
    with pytest.raises(ValueError, match="backward = naive: computes attention: must compute attention backward"):
        training_step(forward, forward)
    with pytest.raises(ValueError, match=r"forward = 3: must be a Prediction, such as simulate\(problem\)"):
        training_step(3, backward)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="backward is of a100: must be of forward's device, h200"):
        training_step(forward, replace(backward, device="a100"))
    with pytest.raises(ValueError, match=r"backward = B=3 .*: must have forward's shape, B=2"):
        training_step(forward, replace(backward, problem=replace(BACKWARD, batch=3)))


def scaling(problem: AttentionProblem, device: Device, *predictions: Prediction) -> Scaling:
    """What `compare` would say of schedules at one length."""
    points = [
        Point(
            schedule=item.schedule,
            config=item.config,
            options=item.options,
            prediction=item,
            seqlen=1024,
            peak_memory_bytes=1,
        )
        for item in predictions
    ]
    return Scaling(
        problem=problem,
        device=device,
        device_name="h200",
        chosen={point.schedule: {1024: point.config} for point in points},
        tried={},
        seqlens=(1024,),
        points=tuple(points),
        limits=(),
        left_out={},
    )


def test_over_lengths_each_forward_schedule_has_its_backward_pass() -> None:
    """The fastest that can follow it; speedups over the baseline's step; memory runs out with both passes in it."""
    forward = scaling(FORWARD, H200, predicted("naive", 4.0), predicted("flash2", 1.0), predicted("flash1", 1.0))
    backward = scaling(BACKWARD, H200, predicted("naive_backward", 6.0, recomputed=0), predicted("flash_backward", 3.0))
    steps = along_lengths(forward, backward)
    pairs = {name: along[1024].backward.schedule for name, along in steps.points.items()}
    assert pairs == {"naive": "naive_backward", "flash2": "flash_backward"}
    assert steps.speedup("flash2", 1024) == 2.5
    longest = steps.limits["naive"].longest_seqlen
    held = [
        memory_of(
            launches_of(FORWARD.but(seqlen_q=length, seqlen_k=length), "naive", Config(), H200),
            launches_of(BACKWARD.but(seqlen_q=length, seqlen_k=length), "naive_backward", Config(recomputed=0), H200),
        ).peak_bytes
        for length in (longest, longest + 1)
    ]
    assert held[0] <= H200.hbm_bytes < held[1]
    text = step_scaling_text(steps, 120, False)
    assert "flash2 + flash_backward" in text and "2.50x" in text
    assert f"naive + naive_backward  from N = {longest + 1:,} on" in text
    document = step_scalings_dict([steps], {}, {})
    assert [step["time_s"] for step in document["steps"]] == [10.0, 4.0]
    assert document["limits"][0]["out_of_memory_seqlen"] == longest + 1
