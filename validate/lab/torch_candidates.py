"""What the candidates of compiled functions' Triton kernels take on this GPU, and which of them torch chose.

    python validate/lab/torch_candidates.py FILE.jsonl [CASE ...]   cases of `torch_functions`; a few if none is named

A line for each kernel of more than one configuration: what torch's tuner tried, with registers and the time that it
measured (behind a flushed L2) [ms]; the one that it chose by these, and the time of that one in the step [us].
"""

import json
import os
import sys
from pathlib import Path
from statistics import median
from typing import Any

os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"

import torch
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
from torch.profiler import ProfilerActivity, profile
from torch_functions import CASES, trains

SHOWN = (
    *("policy_ratio", "z_loss", "convnext_block", "mel_stem", "lora_linear", "gpt2_block", "graph_convolution"),
    *("resnet_last", "bag_of_words", "train_bert_layer", "distillation"),
)
RUNS = 8


def described(config: Any) -> dict[str, Any]:
    """A configuration in plain values."""
    return dict(config.kwargs) | {"num_warps": config.num_warps, "num_stages": config.num_stages}


def tried(name: str) -> list[dict[str, Any]]:
    """Kernels of a case, with all that torch tries of each. Args: name: of the case."""
    kernels: dict[str, dict[str, Any]] = {}
    tune = CachingAutotuner.benchmark_all_configs

    def noting(tuner: CachingAutotuner, *arguments: Any, **options: Any) -> Any:
        times = tune(tuner, *arguments, **options)
        seen = [[described(launcher.config), launcher.n_regs, time_ms] for launcher, time_ms in times.items()]
        chosen = described(min(times, key=times.__getitem__).config)
        kernels[tuner.fn.__name__] = {"kernel": tuner.fn.__name__, "tried": seen, "chosen": chosen}
        return times

    CachingAutotuner.benchmark_all_configs = noting  # type: ignore[method-assign]
    try:
        torch._dynamo.reset()
        made, arguments = CASES[name]("cuda")
        with torch.set_grad_enabled(trains(name)):
            step = torch.compile(made)
            for _ in range(3):
                step(*arguments)
            torch.cuda.synchronize()
            with profile(activities=[ProfilerActivity.CUDA]) as profiled:
                for _ in range(RUNS):
                    step(*arguments)
                    torch.cuda.synchronize()
    finally:
        CachingAutotuner.benchmark_all_configs = tune  # type: ignore[method-assign]
    for kernel, entry in kernels.items():
        times = [event.time_range.elapsed_us() for event in profiled.events() if event.name == kernel]
        entry |= {"case": name, "step_us": median(times) if times else None, "count": len(times) / RUNS}
    return list(kernels.values())


def main(file: Path, names: list[str]) -> None:
    """Write a line for each kernel."""
    with file.open("a", encoding="utf-8") as lines:
        for name in names or SHOWN:
            try:
                entries = tried(name)
            except Exception as error:
                entries = [{"case": name, "failed": f"{type(error).__name__}: {error}".splitlines()[0]}]
            for entry in entries:
                entry |= {"gpu": torch.cuda.get_device_name(), "torch": str(torch.__version__)}
                print(json.dumps(entry), flush=True)
                lines.write(json.dumps(entry) + "\n")
                lines.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
