"""Wrong uses from Python: each is one line that names argument, value and what is allowed; numpy's are numbers."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesight
from tilesight import AttentionProblem, Config, SoftmaxProblem, compare, compiler, explore, load_device, simulate

SHAPE: dict[str, Any] = {"batch": 1, "heads": 2, "seqlen_q": 128, "seqlen_k": 128, "head_dim": 64}
PROBLEM = AttentionProblem(**SHAPE)
SMALLEST: dict[str, Any] = {"block_m": 64, "block_n": 64, "num_warps": 4, "num_stages": 2}
use: Any = lambda function, *given, **named: lambda: function(*given, **named)  # noqa: E731
A_PROBLEM = r"must be a Problem, such as AttentionProblem\(batch=1, "
A_DEVICE = "must be a name such as 'h200', a path that ends in .toml, or what load_device"
WRONG: list[tuple[Callable[[], object], str]] = [
    (use(simulate, None), f"problem = None: {A_PROBLEM}"),
    (use(simulate, SHAPE), f"problem = {{'batch': 1, .*: {A_PROBLEM}"),
    (use(simulate, AttentionProblem), f"problem = <class .*: {A_PROBLEM}"),
    (use(explore, None), f"problem = None: {A_PROBLEM}"),
    (use(compare, None, [128]), f"problem = None: {A_PROBLEM}"),
    (use(compiler, None), f"problem = None: {A_PROBLEM}"),
    (use(simulate, PROBLEM, config={"block_m": 64}), r"config = {'block_m': 64}: must be a Config, such as Config\("),
    (use(simulate, PROBLEM, config={}), "config = {}: must be a Config"),
    (use(simulate, PROBLEM, config=(64, 64)), r"config = \(64, 64\): must be a Config"),
    (use(simulate, PROBLEM, device=["h200"]), rf"device = \['h200'\]: {A_DEVICE}"),
    (use(simulate, PROBLEM, device=None), f"device = None: {A_DEVICE}"),
    (use(explore, PROBLEM, device=["h200", "h100"]), rf"device = \['h200', 'h100'\]: {A_DEVICE}"),
    (use(compare, PROBLEM, [128], device=4090), f"device = 4090: {A_DEVICE}"),
    (use(compiler, PROBLEM, device=3), f"device = 3: {A_DEVICE}"),
    (use(load_device, None), f"device = None: {A_DEVICE}"),
    (use(load_device, Path("no/such.toml")), "no/such.toml: no such file; `tilesight devices` lists"),
    (use(tilesight.capture, 3), f"device = 3: {A_DEVICE}"),
    (use(tilesight.predict, None), "launches = None: must be a list of recorded launches, such as `with"),
    (use(tilesight.predict, [], l2="x"), "l2 = 'x': must be one of pipeline, cold, warm"),
    (
        use(simulate, PROBLEM, schedule=["flash2"]),
        r"schedule = \['flash2'\]: must be a name, one of chunked_flash, flash1, ",
    ),
    (use(simulate, PROBLEM, schedule=None), "schedule = None: must be a name, one of chunked_flash, flash1, "),
    (use(explore, PROBLEM, schedule=None), "schedule = None: must be a list of names, or one"),
    (use(explore, PROBLEM, schedule=[]), r"schedule = \[\]: must name at least one of chunked_flash, "),
    (use(simulate, PROBLEM, l2=["cold"]), r"l2 = \['cold'\]: must be one of cold, warm"),
    (use(explore, PROBLEM, l2="hot", **SMALLEST), "l2 = 'hot': must be one of cold, warm"),
    (use(simulate, PROBLEM, steady_state="no"), "steady_state = 'no': must be True or False"),
    (use(simulate, PROBLEM, registers="128"), "registers = '128': must be an integer of 1 or more"),
    (use(simulate, PROBLEM, registers=0), "registers = 0: must be an integer of 1 or more"),
    (use(explore, PROBLEM, registers=-3), "registers = -3: must be an integer of 1 or more"),
    (use(simulate, PROBLEM, smem_bytes=1e4), "smem_bytes = 10000.0: must be an integer of 0 or more"),
    (use(simulate, PROBLEM, smem_bytes="1KiB"), "smem_bytes = '1KiB': must be an integer of 0 or more"),
    (use(simulate, PROBLEM, resources=[1]), "resources = 1: must be a Resources, such as those of a Launch"),
    (use(simulate, PROBLEM, resources=[]), "resources: has 0: must have 1, one for each launch"),
    (use(simulate, PROBLEM, resources_of=3), "resources_of = 3: must be a function of the launches"),
    (use(simulate, PROBLEM, resources_of=lambda _: None), "resources_of: returned None: must return a list of 1, "),
    (use(AttentionProblem, **SHAPE, causal="no"), "causal = 'no': must be True or False"),
    (use(AttentionProblem, **SHAPE, causal=1), "causal = 1: must be True or False"),
    (use(AttentionProblem, **SHAPE, dropout="0.1"), r"dropout = '0.1': must be a probability in \[0, 1\)"),
    (use(AttentionProblem, **SHAPE, dtype=np.float16), "dtype = <class 'numpy.float16'>: must be one of fp32, fp16,"),
    (use(AttentionProblem, **{**SHAPE, "batch": 1.5}), "batch = 1.5: must be an integer of 1 or more"),
    (use(SoftmaxProblem, batch=True, heads=1, seqlen_q=1, seqlen_k=1), "batch = True: must be an integer of 1 or more"),
    (use(simulate, PROBLEM, config=Config(block_m=[64, 128])), r"block_m = \[64, 128\]: must be a power of two"),
    (use(explore, PROBLEM, block_m=64.0), "block_m = 64.0: must be a list of values, or one: a power of two"),
    (use(explore, PROBLEM, block_m=None), "block_m = None: must be a list of values, or one: a power of two"),
    (use(explore, PROBLEM, block_m=()), r"block_m = \(\): must hold at least one value"),
    (use(explore, PROBLEM, block_m=(64, 64)), r"block_m = \(64, 64\): has 64 twice; give it once"),
    (use(explore, PROBLEM, workers="2", **SMALLEST), "workers = '2': must be an integer of 1 or more"),
    (use(explore, PROBLEM, progress=True, **SMALLEST), "progress = True: must be a function of"),
    (use(compare, PROBLEM, 128), r"seqlens = 128: must be a list of lengths, such as \[1024, 2048\]"),
    (use(compare, PROBLEM, "128"), r"seqlens = '128': must be a list of lengths, such as \[1024, 2048\]"),
    (use(compare, PROBLEM, [128.0]), "seqlens = 128.0: must be an integer of 1 or more"),
    (use(replace, load_device("h200"), compute_capability=9.0), "compute_capability = 9.0: must be a str, such as"),
    (use(replace, load_device("h200"), sm=None), "sm = None: must be a SmNumbers, such as load_device"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG, ids=[said[:40] for _, said in WRONG])
def test_a_wrong_use_is_one_line_that_says_what_is_right(wrong: Callable[[], object], said: str) -> None:
    """A ValueError, before any work, that names argument and value."""
    with pytest.raises(ValueError) as caught:
        wrong()
    assert re.match(said, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_whole_of_a_long_value_is_not_repeated() -> None:
    """A message is read in a terminal."""
    with pytest.raises(ValueError, match=r"^problem = ") as caught:
        simulate(list(range(10_000)))  # type: ignore[arg-type]
    assert len(str(caught.value)) < 250


def test_numbers_of_numpy_are_numbers() -> None:
    """Wherever Python's own are, with the same result; what comes out is Python's own again, as JSON needs it."""
    seen = AttentionProblem(
        **{name: np.int64(value) for name, value in SHAPE.items()}, causal=np.bool_(False), dropout=np.float32(0)
    )
    assert seen == PROBLEM and repr(seen) == repr(PROBLEM)
    config = Config(**{name: np.int32(value) for name, value in SMALLEST.items()})
    assert config == Config(**SMALLEST) and repr(config) == repr(Config(**SMALLEST))
    wanted = simulate(PROBLEM, config=Config(**SMALLEST), registers=128).to_dict()
    assert simulate(seen, config=config, registers=np.int64(128)).to_dict() == wanted  # type: ignore[arg-type]
    json.dumps(simulate(seen, config=config).to_dict())
    several = {**SMALLEST, "block_m": np.array([64, 128]), "block_n": np.int64(64)}
    assert len(explore(seen, **several).candidates) == 2
    assert compare(seen, np.array([128, 256]), schedule="flash2", **SMALLEST).seqlens == (128, 256)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("rtx4090", "rtx-4090"),
        ("RTX 4090", "rtx-4090"),
        ("4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 5090", "rtx-5090"),
        ("H100", "h100-sxm"),
        ("H100 SXM", "h100-sxm"),
        ("h100_pcie", "h100-pcie"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("a100-80gb", "a100-sxm-80gb"),
        ("NVIDIA H200", "h200"),
        ("L40S", "l40s"),
    ],
)
def test_a_device_is_found_however_it_is_written(written: str, meant: str) -> None:
    """With or without maker, case and separators."""
    assert load_device(written) == load_device(meant)
    assert simulate(PROBLEM, config=Config(**SMALLEST), device=written, cost="tiles").device == meant


@pytest.mark.parametrize("other", ["l40", "gh200", "h100-nvl", "v100", "rtx"])
def test_another_device_is_not_taken_for_one_that_is_like_it(other: str) -> None:
    """It is refused, and where a name is near, that is said."""
    with pytest.raises(ValueError, match=f"^device '{other}' is unknown"):
        load_device(other)
