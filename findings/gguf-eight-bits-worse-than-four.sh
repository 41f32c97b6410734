#!/bin/sh
# gguf 0.19.0: small weights in Q8_0 are further off than the same weights in Q4_0.
#
# A block of 32 has a scale in fp16: the largest magnitude over 127 in Q8_0, over 8 in Q4_0. Of weights below 1e-4 the
# scale is a subnormal of fp16 with few bits, or zero, and Q8_0 gets there 16 times sooner. No warning is given.
# Seen, largest error over largest weight, normal weights of standard deviation 1, 1e-4, 1e-5, 1e-6:
# Q8_0 0.004, 0.010, 0.096, 0.967; Q4_0 0.060, 0.060, 0.061, 0.094.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile gguf==0.19.0 numpy==2.3.5
cat >"$place/finding.py" <<'EOF'
import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize, quantize


def error(deviation, kind):
    weights = (np.random.default_rng(0).standard_normal((4, 256)) * deviation).astype(np.float32)
    back = dequantize(quantize(weights, kind), kind)
    return float(np.abs(back - weights).max() / np.abs(weights).max())


seen = {deviation: (error(deviation, Kind.Q8_0), error(deviation, Kind.Q4_0)) for deviation in (1, 1e-4, 1e-5, 1e-6)}
for deviation, (eight, four) in seen.items():
    print(f"deviation {deviation:g}: Q8_0 {eight:.3f}, Q4_0 {four:.3f} of the largest weight")
assert seen[1][0] < seen[1][1] / 10
assert seen[1e-5][0] > 1.5 * seen[1e-5][1]
assert seen[1e-6][0] > 0.9 and seen[1e-6][1] < 0.2
EOF
cd "$place"
"$place/venv/bin/python" finding.py
