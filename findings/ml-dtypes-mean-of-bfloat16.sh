#!/bin/sh
# ml_dtypes 0.5.4 with numpy 2.3.5: the mean of 1,000 ones in bfloat16 is 0.256.
#
# numpy adds float16 in float32 when it takes a mean, for it knows that type; bfloat16 is added in bfloat16, where 256
# plus 1 is 256. The mean of 65,536 ones is 0.004. mean(dtype=np.float32) is right.
# Seen: bfloat16 0.255859, 0.00390625, float16 1.0, bfloat16 as float32 1.0.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile ml_dtypes==0.5.4 numpy==2.3.5
cat >"$place/finding.py" <<'EOF'
import ml_dtypes
import numpy as np

ones = np.ones(1000, ml_dtypes.bfloat16)
means = [
    float(ones.mean()),
    float(np.ones(65536, ml_dtypes.bfloat16).mean()),
    float(ones.astype(np.float16).mean()),
    float(ones.mean(dtype=np.float32)),
]
print(means)
assert means == [0.255859375, 0.00390625, 1.0, 1.0]
EOF
cd "$place"
"$place/venv/bin/python" finding.py
