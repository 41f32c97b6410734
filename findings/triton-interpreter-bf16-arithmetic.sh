#!/bin/sh
# Triton 3.6.0, TRITON_INTERPRET=1: tl.dot and tl.sum of bf16 give other numbers than arithmetic does, in silence.
#
# The interpreter keeps bf16 as 16-bit integers, and these two work on the integers: a product of ones by ones is of
# the order of 1e9, not 16, and the sum of 1,024 ones is 0. fp16 is right. Tests of bf16 kernels by interpreter fail, or are
# loosened, for a reason that is not theirs.
# Seen: dot fp16 16.0, bf16 4228120576.0; sum fp16 1024.0, bf16 0.0.
# torch is pinned as torch==2.13.0; its build for the CPU is enough:
# PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu has pip find it, else pip takes the one with CUDA.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile triton==3.6.0 torch==2.13.0 numpy==2.3.5
cat >"$place/finding.py" <<'EOF'
import torch
import triton
import triton.language as tl


@triton.jit
def product(A, C):
    i = tl.arange(0, 16)
    a = tl.load(A + i[:, None] * 16 + i[None, :])
    tl.store(C + i[:, None] * 16 + i[None, :], tl.dot(a, a))


@triton.jit
def summed(X, Y):
    tl.store(Y, tl.sum(tl.load(X + tl.arange(0, 1024)), 0))


products, sums = {}, {}
for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
    c, y = torch.zeros(16, 16), torch.zeros(1)
    product[(1,)](torch.ones(16, 16, dtype=dtype), c)
    summed[(1,)](torch.ones(1024, dtype=dtype), y)
    products[name], sums[name] = c[0, 0].item(), y.item()
print("dot", products, "sum", sums)
assert products["fp16"] == 16.0 and sums["fp16"] == 1024.0
assert products["bf16"] > 1e9 and sums["bf16"] == 0.0
EOF
cd "$place"
TRITON_INTERPRET=1 "$place/venv/bin/python" finding.py
