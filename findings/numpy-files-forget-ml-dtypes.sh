#!/bin/sh
# numpy 2.3.5 with ml_dtypes 0.5.4: np.save takes bfloat16 and fp8, and np.load gives back raw bytes, or refuses.
#
# The header of the file says '|V2' of bfloat16 and '|V1' of float8_e4m3fn and of int4: the type is lost, and sums
# raise; array.view(dtype) brings it back, where it is known from elsewhere. Of float8_e5m2 it says '<f1', which np.load
# does not take: a file that was written without a word cannot be read. int4 takes a byte an element.
# Seen: bfloat16 |V2, float8_e4m3fn |V1, int4 |V1, float8_e5m2 "descr is not a valid dtype descriptor: '<f1'".
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile ml_dtypes==0.5.4 numpy==2.3.5
cat >"$place/finding.py" <<'EOF'
import io

import ml_dtypes
import numpy as np


def loaded(name):
    file = io.BytesIO()
    given = np.arange(4).astype(getattr(ml_dtypes, name))
    np.save(file, given)
    file.seek(0)
    try:
        back = np.load(file)
    except ValueError as error:
        return str(error)
    assert (back.view(given.dtype) == given).all() and back.nbytes == given.nbytes
    return back.dtype.str


seen = {name: loaded(name) for name in ("bfloat16", "float8_e4m3fn", "int4", "float8_e5m2")}
print(seen)
assert [seen[name] for name in ("bfloat16", "float8_e4m3fn", "int4")] == ["|V2", "|V1", "|V1"]
assert "'<f1'" in seen["float8_e5m2"]
assert np.arange(4).astype(ml_dtypes.int4).nbytes == 4
EOF
cd "$place"
"$place/venv/bin/python" finding.py
