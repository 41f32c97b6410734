#!/bin/sh
# Triton 3.6.0: one wheel assembles sm_90 and sm_100 by ptxas of two CUDA releases.
#
# Beside `ptxas` the wheel has `ptxas-blackwell`, of a later CUDA, for compute capability 10.0 and above; PTX is of
# another version, too. So registers and code of one kernel on two GPUs differ by compiler as well as by target,
# and `ptxas --version` names only one of the two.
# Seen: ptxas 12.8.93, ptxas-blackwell 12.9.86; PTX 8.7 for sm_90, 8.8 for sm_100.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile triton==3.6.0
cat >"$place/finding.py" <<'EOF'
import re
import subprocess
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def compiled(function, signature, constants, attributes=None, sm=90, **options):
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes or {})
    return triton.compile(source, target=GPUTarget("cuda", sm, 32), options=options)


@triton.jit
def copy(X, Y, B: tl.constexpr):
    tl.store(Y + tl.arange(0, B), tl.load(X + tl.arange(0, B)))


folder = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
releases = {}
for name in ("ptxas", "ptxas-blackwell"):
    said = subprocess.run([folder / name, "--version"], capture_output=True, text=True, check=True).stdout
    releases[name] = re.search(r"V([\d.]+)", said)[1]
versions = {}
for sm in (90, 100):
    kernel = compiled(copy, {"X": "*fp32", "Y": "*fp32", "B": "constexpr"}, {(2,): 128}, sm=sm)
    versions[sm] = re.search(r"\.version (\S+)", kernel.asm["ptx"])[1]
print(releases, versions)
assert releases == {"ptxas": "12.8.93", "ptxas-blackwell": "12.9.86"}
assert versions == {90: "8.7", 100: "8.8"}
EOF
cd "$place"
"$place/venv/bin/python" finding.py
