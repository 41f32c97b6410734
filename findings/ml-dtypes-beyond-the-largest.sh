#!/bin/sh
# ml_dtypes 0.5.4: what a number beyond the largest becomes is another thing in each narrow type.
#
# 1,000 becomes NaN in e4m3fn, infinity in e5m2 (of 1e6), 6 in e2m1 (saturated), and -8 in int4 (wrapped: 1,000 mod 16);
# a scale of 0 becomes NaN in e8m0, which has no zero; NaN becomes -0 in e2m1, which has no NaN.
# None raises or warns. A block that is all zeros so gets a scale that makes all of it NaN.
# Seen: e4m3fn nan, e5m2 inf, e2m1 6, int4 -8, e8m0 of 0 nan, e2m1 of NaN -0.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile ml_dtypes==0.5.4 numpy==2.3.5
cat >"$place/finding.py" <<'EOF'
import math

import ml_dtypes
import numpy as np


def cast(value, name, source=np.float32):
    return float(np.array([value], source).astype(getattr(ml_dtypes, name))[0])


e4m3, e5m2 = cast(1000, "float8_e4m3fn"), cast(1e6, "float8_e5m2")
e2m1, int4 = cast(1000, "float4_e2m1fn"), cast(1000, "int4", np.int32)
scale, nothing = cast(0, "float8_e8m0fnu"), cast(math.nan, "float4_e2m1fn")
print(f"e4m3fn {e4m3}, e5m2 {e5m2}, e2m1 {e2m1}, int4 {int4}, e8m0 of 0 {scale}, e2m1 of NaN {nothing}")
assert math.isnan(e4m3) and e5m2 == math.inf and e2m1 == 6.0 and int4 == -8.0
assert math.isnan(scale) and nothing == 0.0 and math.copysign(1.0, nothing) == -1.0
EOF
cd "$place"
"$place/venv/bin/python" finding.py
