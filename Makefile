# `make demo` and `make test` do all their own set-up. Needs Python 3.11+, JDK 17+ and Maven on the PATH.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test lint bench setup clean

setup: $(STAMP)

$(STAMP): pyproject.toml deploy/prerequisites.sh
	@sh deploy/prerequisites.sh "$(PYTHON)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@$(BIN)/kstreams-worker broker install
	@touch $@

demo: $(STAMP)
	@$(BIN)/python -m examples.demo

test: $(STAMP)
	@$(BIN)/python -m pytest

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(STAMP)
	@$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .build .mypy_cache .ruff_cache .pytest_cache
