#!/bin/sh
# numba 0.62.1, pip, setuptools 80.9.0: what `cache=True` leaves in site-packages hides a later editable install.
#
# numba keeps compiled functions in `__pycache__` of the package. `pip uninstall` removes only files that the wheel had,
# so the package's folder stays, with nothing but numba's files. For Python a folder without `__init__.py` is a namespace
# package, and site-packages comes before the finder of an editable install. Installed anew with `--editable`, the
# package imports without an error and is empty.
# Seen: after `pip install .`, a call, and `pip install --editable .`, `kept.__file__` is None and `kept.double` missing.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
pip() { "$place/venv/bin/python" -m pip --disable-pip-version-check "$@"; }
pip install --quiet --no-compile numba==0.62.1 setuptools==80.9.0
mkdir -p "$place/project/source/inner"
cat >"$place/project/pyproject.toml" <<'EOF'
[build-system]
requires = ["setuptools==80.9.0"]
build-backend = "setuptools.build_meta"

[project]
name = "kept"
version = "1.0"

[tool.setuptools]
packages = ["kept", "kept.inner"]

[tool.setuptools.package-dir]
kept = "source"
"kept.inner" = "source/inner"
EOF
echo "from .inner.doubled import double" >"$place/project/source/__init__.py"
: >"$place/project/source/inner/__init__.py"
cat >"$place/project/source/inner/doubled.py" <<'EOF'
from numba import njit


@njit(cache=True)
def double(x):
    return 2 * x
EOF
mkdir "$place/elsewhere"
cd "$place/elsewhere"
pip install --quiet --no-build-isolation "$place/project"
"$place/venv/bin/python" -c "import kept; assert kept.double(2) == 4"
pip install --quiet --no-build-isolation --editable "$place/project"
"$place/venv/bin/python" -c "
import kept
print('file', kept.__file__, 'has double:', hasattr(kept, 'double'))
assert kept.__file__ is None and not hasattr(kept, 'double')"
