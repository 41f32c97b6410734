"""`validate --checkpoint`: predicted without a GPU, measured on one that is made up."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_up_measurements import H200, a_timing
from tilesight.simulator.problems.attention import MAX_SEQLEN, AttentionProblem
from tilesight.simulator.report.page import Made
from tilesight.simulator.simulate import peak_memory_bytes
from tilesight.validate.compare.quantities import Compared
from tilesight.validate.experiments import checkpoint as room
from tilesight.validate.experiments.checkpoint import both_passes, causes_in, longest_that_fits, measure, predict
from tilesight.validate.experiments.checkpoint_values import Checkpoint, Grown
from tilesight.validate.points.point import Point
from tilesight.validate.report.checkpoint import checkpoint_html, checkpoint_png, checkpoint_text

PROBLEM = AttentionProblem(batch=1, heads=4, seqlen_q=512, seqlen_k=512, head_dim=64)
DEVICE = {"name": "h200", "set": []}
STANDARD, TILED = "naive", "flash2"
LENGTHS = (512, 1024, 2048)
MADE = Made(command="tilesight validate --checkpoint", version="1.2.3", date="2026-11-23T12:34:56+00:00")


@pytest.fixture(scope="module")
def predicted() -> Iterator[Checkpoint]:
    """A small one: three lengths, two batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "LENGTHS", LENGTHS)
        patch.setattr(room, "MAP_BATCHES", (1, 4))
        patch.setattr(room, "MAP_LENGTHS", (512, 1024))
        yield predict(PROBLEM, H200)


class MadeUpGpu:
    """A GPU with some free memory, on which everything takes twice the predicted memory's worth of nanoseconds.

    Args:
        free_bytes: device memory; faults: (schedule, batch, length) -> answer in place of a time.
    """

    def __init__(self, free_bytes: float = 1e12, faults: Mapping[tuple[str, int, int], dict[str, Any]] | None = None):
        self.free_bytes, self.faults = free_bytes, faults or {}
        self.asked: list[Mapping[str, Any]] = []

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """One answer."""
        self.asked.append(job)
        if job["do"] == "memory":
            return {"free_bytes": self.free_bytes, "total_bytes": 2 * self.free_bytes, "gpu": "a GPU that is none"}
        point = Point.from_dict(job["point"])
        problem = point.problem
        held = peak_memory_bytes(problem, point.schedule, None, H200)
        if held > self.free_bytes:
            return {"out_of_memory": True}
        fault = self.faults.get((point.schedule, problem.batch, problem.seqlen_q))
        if fault:
            return fault
        answer: dict[str, Any] = {"peak_memory_bytes": held}
        if job["do"] == "time":
            answer["timing"] = a_timing(2e-9 * held, "warm").to_dict()
        return answer


def point_of(checkpoint: Checkpoint, schedule: str, seqlen: int) -> Grown:
    """One point of the plot."""
    (point,) = (point for point in checkpoint.lengths if (point.schedule, point.seqlen) == (schedule, seqlen))
    return point


def test_memory_of_standard_attention_is_quadratic_and_of_tiled_linear(predicted: Checkpoint) -> None:
    """Twice the length: four times the score matrices, twice everything else."""
    standard, tiled = (
        [point_of(predicted, schedule, length).memory_bytes.predicted or 0.0 for length in LENGTHS]
        for schedule in (STANDARD, TILED)
    )
    assert tiled[1] == 2 * tiled[0]
    assert standard[2] - standard[1] * 2 == pytest.approx(2 * (standard[1] - standard[0] * 2) * 2)
    assert 3.5 < standard[2] / standard[1] < 4


def test_memory_runs_out_where_one_token_more_does_not_fit(predicted: Checkpoint) -> None:
    """The longest length fits, and the next one does not; four heads of the tiled kernel fit at any length."""
    longest = int(predicted.longest[STANDARD].predicted or 0)
    held = [
        peak_memory_bytes(replace(PROBLEM, seqlen_q=length, seqlen_k=length), STANDARD, None, H200)
        for length in (longest, longest + 1)
    ]
    assert held[0] <= H200.hbm_bytes < held[1]
    assert predicted.longest[TILED].predicted == MAX_SEQLEN


def renamed(checkpoint: Checkpoint, seconds: float, memory: float) -> Checkpoint:
    """The same as if it were of the backward pass. Args: seconds, memory: times as long, and as much."""
    names = {STANDARD: "naive_backward", TILED: "flash_backward"}

    def times(figure: Compared, factor: float) -> Compared:
        return Compared(predicted=figure.predicted and figure.predicted * factor)

    cells = {
        (names[name], *shape): replace(
            cell,
            schedule=names[name],
            time_s=times(cell.time_s, seconds),
            memory_bytes=times(cell.memory_bytes, memory),
        )
        for (name, *shape), cell in checkpoint.cells.items()
    }
    return replace(
        checkpoint,
        standard=names[STANDARD],
        tiled=names[TILED],
        longest={names[name]: times(length, 0.5) for name, length in checkpoint.longest.items()},
        cells=cells,  # type: ignore[arg-type]
    )


def test_a_training_step_adds_times_and_holds_what_the_greedier_pass_holds(predicted: Checkpoint) -> None:
    """With the shorter of the longest sequences; figures that one pass lacks are lacking."""
    both = both_passes(predicted, renamed(predicted, 3, 2))
    for before, after in zip(predicted.lengths, both.lengths, strict=True):
        assert after.schedule == f"{before.schedule} + {before.schedule.replace('2', '')}_backward"
        assert after.time_s.predicted == pytest.approx(4 * (before.time_s.predicted or 0))
        assert after.memory_bytes.predicted == 2 * (before.memory_bytes.predicted or 0)
    assert both.speedup(1, 1024).predicted == pytest.approx(predicted.speedup(1, 1024).predicted)
    assert both.longest["flash2 + flash_backward"].predicted == MAX_SEQLEN / 2
    text = checkpoint_text(both)
    assert text.splitlines()[0].startswith("B=1 H=4 D=64 fp16 no mask, forward and backward on ")
    assert "Standard attention (naive + naive_backward) runs out of memory beyond" in text
    assert "bound by" not in text
    lacking = replace(predicted, cells={key: replace(cell, time_s=Compared()) for key, cell in predicted.cells.items()})
    assert {cell.time_s for cell in both_passes(lacking, renamed(predicted, 1, 1)).lengths} == {Compared()}


def test_what_does_not_fit_is_not_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its memory, a reason, and no time."""
    monkeypatch.setattr(room, "LENGTHS", (512,))
    monkeypatch.setattr(room, "MAP_BATCHES", (1,))
    monkeypatch.setattr(room, "MAP_LENGTHS", (512,))
    small = replace(H200, hbm_bytes=1 << 28)
    checkpoint = predict(replace(PROBLEM, heads=512), small)
    point = point_of(checkpoint, STANDARD, 512)
    assert (point.reason, point.time_s.predicted) == ("out of memory", None)
    assert point.memory_bytes.predicted
    assert checkpoint.speedup(1, 512) == Compared()


def test_a_run_that_takes_minutes_to_simulate_is_measured_all_the_same(
    predicted: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memory is predicted, its time is not, and the answer says why."""
    monkeypatch.setattr(room, "LENGTHS", (512,))
    monkeypatch.setattr(room, "MAP_BATCHES", (1,))
    monkeypatch.setattr(room, "MAP_LENGTHS", (512,))
    monkeypatch.setattr(room, "SIMULATED_BYTES", 1e6)
    checkpoint = measure(predict(PROBLEM, H200), DEVICE, MadeUpGpu().ask)
    point, line = point_of(checkpoint, STANDARD, 512), f"Not predicted: {STANDARD} at B=1 N=512: holds more than "
    assert checkpoint_text(checkpoint).count(line) == 1
    assert (point.time_s.predicted, point.reason) == (None, "")
    assert point.time_s.measured


def test_the_speed_up_is_time_over_time(predicted: Checkpoint) -> None:
    """Of the same batch and length, predicted over predicted and measured over measured."""
    checkpoint = measure(predicted, DEVICE, MadeUpGpu().ask)
    standard, tiled = point_of(checkpoint, STANDARD, 1024).time_s, point_of(checkpoint, TILED, 1024).time_s
    gain = checkpoint.speedup(1, 1024)
    assert gain.predicted == (standard.predicted or 0) / (tiled.predicted or inf)
    assert gain.measured == (standard.measured or 0) / (tiled.measured or inf)


def test_measuring_fills_in_memory_and_time(predicted: Checkpoint) -> None:
    """And leaves what was predicted as it was."""
    checkpoint = measure(predicted, DEVICE, MadeUpGpu().ask)
    assert checkpoint.gpu == "a GPU that is none"
    assert checkpoint.worst_memory_error == 0.0
    for before, after in zip(predicted.lengths, checkpoint.lengths, strict=True):
        assert after.time_s.predicted == before.time_s.predicted
        assert after.time_s.measured == pytest.approx(2e-9 * (after.memory_bytes.measured or 0))


def test_a_shape_that_is_in_plot_and_map_is_measured_once(predicted: Checkpoint) -> None:
    """Six lengths and eight cells share four shapes."""
    gpu = MadeUpGpu()
    measure(predicted, DEVICE, gpu.ask)
    timed = [
        (job["point"]["schedule"], job["point"]["problem"]["batch"], job["point"]["problem"]["seqlen_q"])
        for job in gpu.asked
        if job["do"] == "time"
    ]
    assert len(timed) == len(set(timed)) == 10


def test_limits_are_measured_before_anything_else_holds_memory(predicted: Checkpoint) -> None:
    """The buffer that flushes L2 would take its share of the device memory."""
    gpu = MadeUpGpu()
    measure(predicted, DEVICE, gpu.ask)
    asked = [job["do"] for job in gpu.asked]
    assert asked[0] == "memory"
    assert asked.index("time") > max(place for place, do in enumerate(asked) if do == "fits")


@pytest.mark.parametrize("free_bytes", [140e9, 149e9, 1e12])
def test_where_memory_really_runs_out_is_found(predicted: Checkpoint, free_bytes: float) -> None:
    """To one part in two thousand, whatever the device file promised."""
    checkpoint = measure(predicted, DEVICE, MadeUpGpu(free_bytes).ask)
    longest = int(checkpoint.longest[STANDARD].measured or 0)
    held = [
        peak_memory_bytes(replace(PROBLEM, seqlen_q=length, seqlen_k=length), STANDARD, None, H200)
        for length in (longest, longest + longest // 1000)
    ]
    assert held[0] <= free_bytes < held[1]


def test_a_wrong_memory_prediction_shows(predicted: Checkpoint) -> None:
    """Two percent too little is the worst error, and the text says so."""
    held = point_of(predicted, TILED, 512).memory_bytes.predicted or 0.0
    fault = {"timing": a_timing(1e-5, "warm").to_dict(), "peak_memory_bytes": held / 0.98}
    checkpoint = measure(predicted, DEVICE, MadeUpGpu(faults={(TILED, 1, 512): fault}).ask)
    assert checkpoint.worst_memory_error == pytest.approx(0.02)
    assert "2.00%" in checkpoint_text(checkpoint)


def test_a_point_that_is_lost_says_why_and_costs_no_other(predicted: Checkpoint) -> None:
    """A process that dies takes its point with it, and nothing else."""
    faults = {(TILED, 1, 1024): {"lost": "illegal address: CUDA error"}}
    checkpoint = measure(predicted, DEVICE, MadeUpGpu(faults=faults).ask)
    assert point_of(checkpoint, TILED, 1024).reason == "illegal address: CUDA error"
    assert point_of(checkpoint, TILED, 2048).time_s.measured
    assert "flash2 at B=1 N=1024: illegal address: CUDA error" in checkpoint_text(checkpoint)


def test_a_limit_that_could_not_be_found_is_noted(predicted: Checkpoint) -> None:
    """A length that kills the process is no length that does not fit."""

    def ask(job: Mapping[str, Any]) -> dict[str, Any]:
        return {"lost": "hang: no answer"} if job["do"] == "fits" else MadeUpGpu().ask(job)

    checkpoint = measure(predicted, DEVICE, ask)
    assert checkpoint.longest[TILED].measured is None
    assert any("hang: no answer" in note for note in checkpoint.notes)


def test_a_slower_kernel_keeps_its_resources_less_busy(predicted: Checkpoint) -> None:
    """The measured regime is judged by the same work in the measured time."""
    checkpoint = measure(predicted, DEVICE, MadeUpGpu().ask)
    cell = point_of(checkpoint, TILED, 2048)
    factor = (cell.time_s.measured or 0.0) / (cell.time_s.predicted or inf)
    assert factor > 3
    assert cell.measured_causes["issue"] == pytest.approx(cell.causes["issue"] / factor)
    assert cell.measured_regime == "wait"
    assert f"wait {100 * cell.measured_causes['wait']:.0f} %" in checkpoint_text(checkpoint)


@given(
    limit=st.integers(0, 20_000_000),
    guess=st.integers(0, 20_000_000),
    step=st.integers(1, 3000),
)
def test_the_longest_that_fits_is_found_from_any_guess(limit: int, guess: int, step: int) -> None:
    """The last multiple of the step that fits, in a number of tries that grows with the logarithm."""
    most = 16_777_216 // step * step
    tried: list[int] = []

    def fits(length: int) -> bool:
        tried.append(length)
        return length <= limit

    assert longest_that_fits(fits, guess, step, most) == min(limit, most) // step * step
    assert len(tried) == len(set(tried)) <= 2 * (most // step).bit_length() + 2
    assert all(step <= length <= most and length % step == 0 for length in tried)


def test_a_measured_time_waits_for_what_its_known_work_leaves() -> None:
    """Work, tail and overhead take as long as predicted; a faster run waits less, and no share exceeds the whole."""
    causes = {"issue": 0.5, "hbm": 0.2, "tail": 0.1, "launch": 0.1, "wait": 0.3}
    twice = {"issue": 0.25, "hbm": 0.1, "tail": 0.05, "launch": 0.05, "wait": 0.65}
    assert causes_in(2e-3, causes, 1e-3) == pytest.approx(twice)
    assert causes_in(0.4e-3, causes, 1e-3)["issue"] == 1.0
    assert causes_in(0.4e-3, causes, 1e-3)["wait"] == 0.0


def test_the_predicted_regime_is_the_simulators(predicted: Checkpoint) -> None:
    """Two rules for one word would contradict each other."""
    from tilesight.simulator.simulate import simulate
    from tilesight.validate.points.point import runnable_config

    for cell in predicted.tiled_cells:
        problem = replace(PROBLEM, batch=cell.batch, seqlen_q=cell.seqlen, seqlen_k=cell.seqlen)
        config = runnable_config(TILED)
        whole = simulate(problem, schedule=TILED, config=config, device=H200, l2="warm", overhead="graph")
        assert cell.regime == whole.bottleneck
        assert cell.to_dict()["regime_share"] == whole.bottleneck_share


def test_the_text_answers_the_questions_without_a_gpu(predicted: Checkpoint) -> None:
    """Each with its prediction alone, and at the end why, and how to get the rest."""
    text = checkpoint_text(replace(predicted, unmeasured="there is no GPU here; see a doctor"))
    for question in ("runs out of memory beyond", "Longest sequence", "Speedup at N = 1024", "Memory and time"):
        assert question in text
    longest = int(predicted.longest[STANDARD].predicted or 0)
    assert f"runs out of memory beyond N = {longest:,}\n" in text
    assert "m: measured" not in text
    header = next(line for line in text.splitlines() if "naive memory" in line)
    assert header.split("  ")[-1] == "speedup"
    last = " ".join(text.partition("Predictions only")[2].split())
    assert last == (
        "; on a machine with a GPU, torch and triton the same command also measures: there is no GPU here; see a doctor"
    )


def test_both_sides_are_shown_once_something_was_measured(predicted: Checkpoint) -> None:
    """A column of measurements beside each of predictions."""
    text = checkpoint_text(measure(predicted, DEVICE, MadeUpGpu().ask), width=200)
    assert "p: predicted, m: measured" in text
    assert "Predictions only" not in text
    assert "naive memory p" in text


def test_the_json_holds_every_figure(predicted: Checkpoint) -> None:
    """Predicted, measured and the error between them."""
    document = measure(predicted, DEVICE, MadeUpGpu().ask).to_dict()
    assert [cell["batch"] for cell in document["map"]] == [1, 1, 4, 4]
    assert all(point["memory_bytes"]["relative_error"] == 0.0 for point in document["lengths"])
    assert document["longest_seqlen"][STANDARD]["predicted"] == predicted.longest[STANDARD].predicted


def test_the_picture_shows_what_was_measured(predicted: Checkpoint) -> None:
    """It is a PNG, and dots make it another one."""
    before, after = checkpoint_png(predicted), checkpoint_png(measure(predicted, DEVICE, MadeUpGpu().ask))
    assert before.startswith(b"\x89PNG")
    assert before != after


def test_the_page_is_whole_without_a_network(predicted: Checkpoint) -> None:
    """Picture and text in one file, no address to load anything from."""
    page = checkpoint_html(replace(predicted, gpu="a <b>&"), MADE)
    assert "data:image/png;base64," in page
    assert "http" not in page
    assert "a &lt;b&gt;&amp;" in page
    assert "<code>tilesight validate --checkpoint</code>" in page and MADE.date in page
