#!/bin/sh
# numba 0.68.1: the mean of many float32 ones is 0.5; numpy 2.3.5 says 1.
#
# In compiled code sum and mean of an array of float32 add one element after the other in float32, so the sum stops at
# 2^24; numpy adds in pairs. The same function with and without @njit so differs by a factor, not by rounding.
# np.sum(x, dtype=np.float64) is right in both.
# Seen: numba sum 16777216.0, mean 0.5, numpy sum 33554432.0, mean 1.0.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile numba==0.68.1 numpy==2.3.5
cat >"$place/finding.py" <<'EOF'
import numpy as np
from numba import njit


def both(x):
    return x.sum(), x.mean()


ones = np.ones(1 << 25, np.float32)
compiled, plain = njit(both)(ones), tuple(map(float, both(ones)))
print("numba", compiled, "numpy", plain)
assert compiled == (2.0**24, 0.5)
assert plain == (2.0**25, 1.0)
EOF
cd "$place"
"$place/venv/bin/python" finding.py
