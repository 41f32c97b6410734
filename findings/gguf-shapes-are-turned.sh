#!/bin/sh
# gguf 0.19.0: the shape of a tensor that was written is not the one that is read.
#
# GGUFReader gives .shape with the fastest dimension first, and .data as numpy has it, so that of one tensor
# .shape and .data.shape are each other's reverse; of a quantised tensor .data is of bytes, 34 for 32 elements of
# Q8_0, while .shape counts elements. reshape(tensor.shape) on the data mixes rows up without an error.
# Seen: F32 shape [32, 3], data (3, 32); Q8_0 shape [32, 3], data (3, 34).
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile gguf==0.19.0 numpy==2.3.5
cat >"$place/finding.py" <<'EOF'
import gguf
import numpy as np

rows = np.arange(96, dtype=np.float32).reshape(3, 32)
kind = gguf.GGMLQuantizationType.Q8_0
writer = gguf.GGUFWriter("file.gguf", "llama")
writer.add_tensor("plain", rows)
writer.add_tensor("small", gguf.quants.quantize(rows, kind), raw_dtype=kind)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
plain, small = gguf.GGUFReader("file.gguf").tensors
for tensor in (plain, small):
    print(tensor.tensor_type.name, "shape", tensor.shape.tolist(), "data", tensor.data.shape)
assert plain.shape.tolist() == small.shape.tolist() == [32, 3]
assert plain.data.shape == (3, 32) and small.data.shape == (3, 34)
assert (plain.data.reshape(plain.shape)[0] != rows[0][:3]).any() or plain.data.reshape(plain.shape).shape != rows.shape
EOF
cd "$place"
"$place/venv/bin/python" finding.py
