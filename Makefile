# `make demo` and `make test` do all their own set-up. Needs Python 3.11+, JDK 17+ and Maven on the PATH.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test lint bench simulate setup clean

SCHEDULES ?= 20000
SEED ?= 0

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

# Random schedules of a simulated group over all cores: make simulate SCHEDULES=100000 SEED=2000
simulate: $(STAMP)
	@$(BIN)/python -m tests.sim --seed $(SEED) --schedules $(SCHEDULES)

clean:
	rm -rf $(VENV) .build .mypy_cache .ruff_cache .pytest_cache
