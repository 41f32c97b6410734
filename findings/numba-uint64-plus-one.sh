#!/bin/sh
# numba 0.68.1: an unsigned 64-bit number plus a literal is signed; numpy 2.3.5 keeps it unsigned.
#
# np.uint64(2**63 + 1) + 1 comes back from compiled code as a negative number: the literal is an int64, and the sum is
# one as well. Hashes, addresses and counters of 64 bits change sign in code that runs right without @njit.
# Seen: numba -9223372036854775806, numpy 9223372036854775810.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile numba==0.68.1 numpy==2.3.5
cat >"$place/finding.py" <<'EOF'
import numpy as np
from numba import njit


def following(x):
    return x + 1


number = np.uint64(2**63 + 1)
compiled, plain = njit(following)(number), following(number)
print("numba", compiled, "numpy", plain)
assert compiled == -(2**63) + 2
assert plain == 2**63 + 2 and plain.dtype == np.uint64
EOF
cd "$place"
"$place/venv/bin/python" finding.py
