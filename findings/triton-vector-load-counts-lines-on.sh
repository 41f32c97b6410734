#!/bin/sh
# triton 3.9.0 (3.6.0 beside it): a load of a vector is said to lie some lines below its source line.
#
# A load becomes inline PTX of several lines: one that clears each 32-bit register, then the load itself. 3.9.0 gives
# each line of it a `.loc` of its own, counted on from the line of the call, and ptxas passes that on to the cubin. So
# profilers that read the line table show the time of a 16-byte load at another statement, or at another function.
# 3.6.0 writes one `.loc` before the inline PTX. The machine code is the same.
# Seen: the load of line 7 at line 11 by 3.9.0, at line 7 by 3.6.0.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cat >"$place/kernel.py" <<'EOF'
import triton
import triton.language as tl

@triton.jit
def copy(X, Y, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + i)
    tl.store(Y + i, x)
    # no statement from here on
EOF
cat >"$place/finding.py" <<'EOF'
import re
import sys

import triton
from kernel import copy
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

marks = {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]}
source = ASTSource(
    fn=copy, signature={"X": "*fp32", "Y": "*fp32", "B": "constexpr"}, constexprs={(2,): 512}, attrs=marks
)
ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
before = ptx.split("ld.global.v4")[0]
line = int(re.findall(r"\.loc\s+1 (\d+) ", before)[-1])
print("triton", triton.__version__, "load of line 7 at line", line)
assert line == int(sys.argv[1])
EOF
cd "$place"
for version_line in 3.6.0:7 3.9.0:11; do
  version=${version_line%:*}
  python3 -m venv "$place/$version"
  "$place/$version/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile "triton==$version"
  TRITON_CACHE_DIR="$place/cache-$version" "$place/$version/bin/python" finding.py "${version_line#*:}"
done
