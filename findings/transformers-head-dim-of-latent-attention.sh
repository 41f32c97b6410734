#!/bin/sh
# transformers 5.17.0: DeepseekV3Config().head_dim is 64, which is no width of a head.
#
# Queries and keys are 192 wide (128 without and 64 with rotary positions), values 128; head_dim is the rotary part alone.
# Code that sizes attention or its cache by config.head_dim, as it does for other families, takes a third of a key.
# Nor is it hidden_size / num_attention_heads, which is 56.
# Seen: head_dim 64, qk_head_dim 192, v_head_dim 128, 7168 / 128 = 56.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile transformers==5.17.0
cat >"$place/finding.py" <<'EOF'
import transformers

config = transformers.DeepseekV3Config()
wide = config.qk_nope_head_dim + config.qk_rope_head_dim
print("head_dim", config.head_dim, "qk", wide, "v", config.v_head_dim, config.hidden_size / config.num_attention_heads)
assert (config.head_dim, config.qk_rope_head_dim, wide, config.v_head_dim) == (64, 64, 192, 128)
assert config.hidden_size // config.num_attention_heads == 56
EOF
cd "$place"
"$place/venv/bin/python" finding.py
