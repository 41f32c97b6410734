#!/bin/sh
# safetensors 0.7.0 with ml_dtypes 0.5.4: safetensors.numpy.save takes bfloat16 and fp8 arrays, load raises KeyError.
#
# The bytes are right, and torch reads them; numpy's own half of the library does not read what it wrote: load knows
# no dtype of ml_dtypes, and its error is the bare name of the type.
# Seen: bfloat16 written as BF16, load KeyError 'BF16'; float8_e4m3fn F8_E4M3, float8_e5m2 F8_E5M2, the same; float16
# comes back.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile \
    safetensors==0.7.0 ml_dtypes==0.5.4 numpy==2.3.5
cat >"$place/finding.py" <<'EOF'
import json

import ml_dtypes  # noqa: F401  (registers its dtypes with numpy)
import numpy as np
from safetensors.numpy import load, save


def seen(name):
    file = save({"x": np.arange(4).astype(name)})
    written = json.loads(file[8 : 8 + int.from_bytes(file[:8], "little")])["x"]["dtype"]
    try:
        return written, load(file)["x"].dtype.name
    except KeyError as error:
        return written, f"KeyError {error}"


outcomes = {name: seen(name) for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")}
for name, (written, back) in outcomes.items():
    print(f"{name}: written as {written}, load gives {back}")
assert outcomes == {
    "float16": ("F16", "float16"),
    "bfloat16": ("BF16", "KeyError 'BF16'"),
    "float8_e4m3fn": ("F8_E4M3", "KeyError 'F8_E4M3'"),
    "float8_e5m2": ("F8_E5M2", "KeyError 'F8_E5M2'"),
}
EOF
cd "$place"
"$place/venv/bin/python" finding.py
