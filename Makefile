# Two commands to know: `make demo` and `make test`. Everything lives in the repository's own .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXAMPLES := $(addprefix tests/e2e/test_,docs_blocks.py first_minutes.py notebooks.py site.py)
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all examples lint bench docs clean

help:
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV) (a few minutes the first time)"
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

setup: $(READY) ## create .venv with everything that is needed

demo: $(READY) ## train ERM and MPHIL on shifted molecules, write demo/index.html
	$(BIN)/mphil demo --out demo

test: $(READY) ## the test suite, without the slow checks
	$(BIN)/python -m pytest -n 2 -m 'not slow'

test-all: $(READY) ## all tests, the slow ones too, and again without the compiled loops
	MPHIL_EXAMPLES=full $(BIN)/python -m pytest -n 2 --promises build/promises.jsonl
	MPHIL_FAST=0 $(BIN)/python -m pytest -n 2 -m 'not slow'

examples: $(READY) ## every example of README and docs, all notebooks, and the site in a browser
	$(BIN)/python -m pytest -n 2 $(EXAMPLES)

lint: $(READY) ## style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY) ## speed, as ratios against a reference in the same run
	$(BIN)/python benchmarks/generate_motif.py
	$(BIN)/python benchmarks/speed.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/waiting.py

docs: $(READY) ## write docs/reference from the code, and the site into build/docs
	$(BIN)/python docs/build.py
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "build/docs/index.html"

clean: ## remove what make and the tools made
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
