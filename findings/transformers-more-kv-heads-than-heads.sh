#!/bin/sh
# transformers 5.17.0: a config that names 4 heads and no KV heads may have 8 or 32 KV heads.
#
# What is not given comes from the family's published model, not from what is given: Mistral has 8 KV heads, Qwen2 32,
# for 4 query heads; Llama has 4. Nothing objects when the config is made. A cache sized by these is 2 and 8 times too large.
# Seen: LlamaConfig 4, MistralConfig 8, MixtralConfig 8, Qwen2Config 32.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile transformers==5.17.0
cat >"$place/finding.py" <<'EOF'
import transformers

seen = {
    name: getattr(transformers, name)(hidden_size=256, num_attention_heads=4).num_key_value_heads
    for name in ("LlamaConfig", "MistralConfig", "MixtralConfig", "Qwen2Config")
}
print(seen)
assert seen == {"LlamaConfig": 4, "MistralConfig": 8, "MixtralConfig": 8, "Qwen2Config": 32}
EOF
cd "$place"
"$place/venv/bin/python" finding.py
