# make explore   a block-size table for a real problem, from nothing but Python 3.11 or newer
# make test      everything that is checked without a GPU, the kernels too where their tools can be installed
# make test-kernels  the Triton kernels in Triton's interpreter, and compiled without a GPU
# make test-pages  every kind of page in a headless Chromium
# make test-random  the property tests with examples that nobody has tried yet, others each time
# make help      this list
#
# Variables: PYTHON (interpreter that makes .venv), EXPLORE (options of the table), PYTEST (options for pytest),
# KERNEL_TOOLS (torch and triton that test the kernels, beside .venv, which stays without), TORCH_INDEX (where pip
# finds torch for the CPU). From PyPI alone, with 3 GB of CUDA: make test KERNEL_TOOLS=torch==2.11.0

PYTHON ?= python3
EXPLORE ?= --device h200 --schedule flash2 --batch 4 --heads 32 --seqlen 4096 --head-dim 64
PYTEST ?= -n 2

KERNEL_TOOLS ?= torch==2.13.0+cpu triton==3.6.0
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
TOOLS := $(CURDIR)/$(VENV)/kernel-tools
TOO_OLD := Tilesight needs Python 3.11 or newer; name one with: make PYTHON=python3.12

CHROMIUM := $(shell command -v chromium || command -v google-chrome || command -v chromium-browser)

.PHONY: help explore test test-pages test-random test-kernels kernel-tools lint types floors pytest install clean
.DELETE_ON_ERROR:

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

explore: $(VENV)/installed
	$(RUN) -m tilesight explore $(EXPLORE)

test: lint types floors pytest
	@if [ -z "$(CHROMIUM)" ]; then echo "Pages are not opened in a browser: no Chromium is installed here"; fi
	@if $(MAKE) --no-print-directory --silent kernel-tools 2>/dev/null; then $(MAKE) --no-print-directory test-kernels; else \
	  echo "Kernel tests are left out: $(KERNEL_TOOLS) cannot be installed here:" \
	    "$$(grep ERROR $(TOOLS).log | tail -1) (all of it: $(VENV)/kernel-tools.log)"; fi

lint: $(VENV)/installed-test
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

types: $(VENV)/installed-test
	$(RUN) tests/house/farm.py types

floors: $(VENV)/installed-test
	$(RUN) tests/house/farm.py floors

pytest: $(VENV)/installed-test
	@$(RUN) tests/support/compile_engine.py
	$(RUN) -m pytest -m "not gpu" $(PYTEST)

test-pages: $(VENV)/installed-test
	@if [ -z "$(CHROMIUM)" ]; then echo "no Chromium is installed here: chromium of Debian, or google-chrome"; exit 1; fi
	$(RUN) -m pytest tests/pages

test-random: $(VENV)/installed-test
	$(RUN) -m pytest -m "hypothesis and not gpu" --hypothesis-profile=random $(PYTEST)

test-kernels: kernel-tools
	PYTHONPATH=$(TOOLS) $(RUN) -m pytest -m "not gpu" $(PYTEST) tests/kernels

# A folder of their own, so that all other tests see what a user without them sees.
kernel-tools: $(VENV)/installed-test
	@if [ "$$(cat $(TOOLS)/made-of 2>&1)" != "$(KERNEL_TOOLS)" ]; then \
	  echo "Installing $(KERNEL_TOOLS) into $(VENV)/kernel-tools (a minute or two)"; rm -rf $(TOOLS); \
	  $(INSTALL) --retries 1 --extra-index-url $(TORCH_INDEX) --target $(TOOLS) $(KERNEL_TOOLS) >$(TOOLS).log 2>&1 \
	    && echo "$(KERNEL_TOOLS)" >$(TOOLS)/made-of; fi

install: $(VENV)/installed

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: each is made anew only when what it was made from has changed.
$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "$(TOO_OLD)")'
	@echo "Making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/builder: constraints.txt | $(VENV)/made
	@$(INSTALL) setuptools
	@touch $@

$(VENV)/installed: $(VENV)/builder pyproject.toml tests/house/farm.py
	@echo "Installing Tilesight into $(VENV) (a minute or two the first time)"
	@$(INSTALL) --no-build-isolation --editable '.[check-softmax]'
	@$(RUN) tests/house/farm.py stubs
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	@echo "Installing the test tools into $(VENV)"
	@$(INSTALL) --no-build-isolation --editable '.[test]'
	@touch $@
