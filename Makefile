# Every command of the project. `make` alone lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# It asks for one older release of Gymnasium and for a pygame beside pygame-ce, and needs neither:
# installed without its dependencies.
NO_DEPS := gymnasium-2048==0.1.2

# Nothing from the user's own Python leaks in; the workflow finds this environment's commands first.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONNOUSERSITE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export DVC_NO_ANALYTICS := 1
unexport PYTHONPATH PYTHONHOME

# The stamp holds the folder it was made in: a moved, copied, broken or half-made .venv is made anew.
STATE := $(shell test -x $(BIN)/python && cat $(STAMP) 2>/dev/null)
READY := $(if $(filter-out $(CURDIR),$(STATE)),,$(STATE))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo verify bench test test-all lint format env constraints clean FORCE

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: env ## Train, evaluate and draw the small grid, record it, print its table
	@$(BIN)/snakemake --cores all demo
	@$(BIN)/mujax-pipe sync --grid demo
	@$(BIN)/mujax-pipe summary --grid demo

verify: env ## Train the cheapest published cell again and compare every byte; CELLS="..." picks some
	@$(BIN)/mujax-pipe verify $(or $(CELLS),--cheapest)

bench: env ## Learner steps a second beside the peer's, side by side in one run
	@$(BIN)/python benchmarks/throughput.py $(ARGS)

# A file stays on one worker, whose fixtures it shares. In the order of folders the long ones come
# first: by default xdist begins with the files of many tests, and the few long ones are the tail.
PYTEST := $(BIN)/python -m pytest -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: env ## Run the quick tests; ARGS="-k replay" picks some
	@$(PYTEST) $(ARGS)

test-all: env ## Run the slow tests too (those that need a Slurm cluster stay out)
	@$(PYTEST) -m "not slurm" $(ARGS)

lint: env ## Check style, types, the workflow and the fingerprint; changes nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check workflow
	$(BIN)/snakemake --lint
	$(BIN)/mujax-pipe fingerprint

format: env ## Mend style where a tool can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt workflow

env: $(STAMP) ## Make .venv with the pinned packages; PYTHON=python3.12 picks an interpreter
	@:

$(STAMP): pyproject.toml constraints.txt $(if $(READY),,FORCE)
	@rm -f $@
	@command -v $(PYTHON) >/dev/null || \
	  { echo "$(PYTHON) is not installed: name another, as in: make env PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$$($(PYTHON) --version 2>&1) is too old, Python 3.11 or newer is needed: make env PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) has no venv module: install it (Debian and Ubuntu: python3-venv), or: make env PYTHON=python3.12" >&2; exit 2; }
	@if [ -z "$(READY)" ]; then \
	  echo "Creating .venv with $$($(PYTHON) --version) ..."; \
	  $(PYTHON) -m venv --clear $(VENV); \
	fi
	@echo "Installing the pinned packages into .venv (about a minute, 1.5 GB on disk) ..."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@$(BIN)/python -m pip install --quiet --no-deps $(NO_DEPS)
	@echo "$(CURDIR)" > $@
	@echo "Done: .venv is ready."

# uv resolves for every supported Python and platform at once, and keeps a version unless it must
# change it; UPGRADE=--upgrade takes the newest of everything.
constraints: env ## Pin what pyproject.toml asks for in constraints.txt; UPGRADE=--upgrade renews all
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	  --all-extras --no-annotate --custom-compile-command "make constraints" $(UPGRADE) \
	  --output-file constraints.txt pyproject.toml
	@awk '{print} /^gymnasium==/ {print "$(NO_DEPS)"}' constraints.txt > constraints.new
	@mv constraints.new constraints.txt

clean: ## Remove .venv and caches; results, checkpoints and logs stay
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache
	find mujax_pipe tests workflow -name __pycache__ -type d -prune -exec rm -rf {} +
