#!/bin/sh
# cuobjdump of Triton 3.6.0's wheel (CUDA 12.8): SHARED of a Triton kernel is not what a CTA takes.
#
# Triton asks for all shared memory when it launches, so `--dump-resource-usage` shows 0 bytes for sm_80, and 1,024,
# what the system reserves, for sm_90, where the kernel takes 16,384. metadata.shared has the true number.
# An occupancy calculated from the tool's output is that of a kernel without shared memory.
# Seen: sm_80 SHARED 0, sm_90 SHARED 1024, metadata.shared 16384 in both.
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
def product(X, Y, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(X + i[:, None] * B + i[None, :])
    tl.store(Y + i[:, None] * B + i[None, :], tl.dot(x, x))


tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
seen = {}
for sm in (80, 90):
    kernel = compiled(product, {"X": "*fp16", "Y": "*fp32", "B": "constexpr"}, {(2,): 64}, sm=sm)
    Path("kernel.cubin").write_bytes(kernel.asm["cubin"])
    asked = [tool, "--dump-resource-usage", "kernel.cubin"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    seen[sm] = int(re.search(r"SHARED:(\d+)", said)[1]), kernel.metadata.shared
print("sm: (SHARED, metadata.shared)", seen)
assert seen == {80: (0, 16384), 90: (1024, 16384)}
EOF
cd "$place"
"$place/venv/bin/python" finding.py
