"""Seconds of `tilesight profile`: a function and a Llama of few layers, with empty caches and asked again.

    python tests/benchmarks/bench_profile.py [--layers 2] [--config path/of/config.json]

Needs torch and triton; the Llama needs transformers, too. Caches lie in a folder of their own. CPU seconds are those of
all processes. `--layers 32` is Llama-3-8B; `--config` another model of Hugging Face.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from bench_tune import adopt_orphans, cpu_s

FUNCTION = """
import torch
import torch.nn.functional as F


def step(x, gate, up, down, weight):
    h = F.rms_norm(x, (4096,), weight)
    return x + (F.silu(h @ gate) * (h @ up)) @ down


def inputs():
    def drawn(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    return drawn(4096, 4096), drawn(4096, 11008), drawn(4096, 11008), drawn(11008, 4096), drawn(4096)
"""
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
}
"""Llama-3-8B. Source: its `config.json`."""


def main() -> None:
    """Ask each question with empty caches and again, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=2, help="of the model; default: 2")
    parser.add_argument("--config", type=Path, help="of the model; default: Llama-3-8B's")
    given = parser.parse_args()
    adopt_orphans()
    with TemporaryDirectory() as folder:
        Path(folder, "function.py").write_text(FUNCTION, encoding="utf-8")
        config = Path(folder, "config.json")
        config.write_text(given.config.read_text("utf-8") if given.config else json.dumps(LLAMA), encoding="utf-8")
        questions = {f"function, {mode}": ("function.py:step", f"--{mode}") for mode in ("eager", "compile")}
        if find_spec("transformers"):
            model = ("hf:config.json", "--layers", str(given.layers))
            passes = {"prefill": ("--tokens", "2048"), "decode": ("--decode", "32x2048")}
            for name, size in passes.items():
                questions |= {f"model, {name}, {mode}": (*model, *size, f"--{mode}") for mode in ("eager", "compile")}
        else:
            print("transformers is not installed: no model")
        for name, question in questions.items():
            for caches in ("empty", "again"):
                print(f"{name + ', ' + caches:34} {_cost(folder, name, question)}", flush=True)


def _cost(folder: str, name: str, question: tuple[str, ...]) -> str:
    """What a question takes. Args: name: of it, which has caches of its own."""
    caches = {
        variable: str(Path(folder, "caches", name, variable))
        for variable in ("TILESIGHT_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
    }
    command = [sys.executable, "-m", "tilesight", "profile", *question, "--device", "h200", "--partial"]
    before, begun = cpu_s(), time.monotonic()
    subprocess.run(command, cwd=folder, env=os.environ | caches, check=True, capture_output=True)
    return f"{time.monotonic() - begun:6.1f} s  {cpu_s() - before:6.1f} CPU s"


if __name__ == "__main__":
    main()
