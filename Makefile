# Every target sets up what it needs by itself (scripts/setup.sh); a repeat with nothing changed costs milliseconds.
# All paths are relative, so the repository may lie in a folder with spaces in its name.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test quick test-lab search soak lint format types imports lock clean

# The caller's Python environment must not leak into .venv.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV MYPYPATH PIP_TARGET PIP_PREFIX PIP_USER PIP_REQUIRE_VIRTUALENV

# Spark needs Java. Sets JAVA_HOME to one that is new enough.
with_java = JAVA_HOME="$$(scripts/ensure-java.sh --print-home)" && export JAVA_HOME &&

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

setup: ## Make .venv with the locked dependencies (the other targets do this by themselves)
	@scripts/setup.sh

demo: setup ## Show on Spark what rankcast does, with pictures in out/
	@$(with_java) .venv/bin/rankcast demo --overwrite

test: setup ## Run every check: lint, format, types, imports, tests of the package
	@$(with_java) scripts/ensure-postgres.sh && scripts/check.sh

quick: setup ## Prove a change in delivery in under a minute: its rules, delivery, serving, hub; no Spark
	@scripts/check.sh tests-quick

test-lab: setup ## Run the tests of lab/: studies, benchmarks and their engines
	@$(with_java) scripts/check.sh tests-lab

# SECONDS, SEED and FOLDERS say how long, from where on and on which tests.
search: setup ## Search for counterexamples of the properties with ever new examples
	@.venv/bin/python scripts/search.py --seconds $(or $(SECONDS),3600) $(if $(SEED),--seed $(SEED)) $(FOLDERS)

# Twenty kills take some ten minutes; KILLS and SEED say how many and when.
soak: setup ## Kill a running stream again and again, and compare what it puts out
	@$(with_java) .venv/bin/python -m pytest -m soak tests/spark lab/tests/spark && \
	  .venv/bin/python scripts/soak.py --kills $(or $(KILLS),20) --seed $(or $(SEED),1)

lint: setup ## Check style (ruff), without changing files
	@scripts/check.sh lint format

format: setup ## Format the code and fix what ruff can fix
	@.venv/bin/python -m ruff check --fix-only --quiet && .venv/bin/python -m ruff format

types: setup ## Check types (mypy --strict)
	@scripts/check.sh types

imports: setup ## Check the import direction of the packages (import-linter)
	@scripts/check.sh imports

# For maintainers. Keeps the locked versions that still fit; `make lock UPGRADE=1` takes the newest of everything.
# The lock names versions and hashes only: no index, no folder and no setting of the machine that made it.
lock: setup ## Rewrite requirements.lock from the project files (UPGRADE=1: newest versions)
	@test -x .venv-lock/bin/uv || { .venv/bin/python -m venv .venv-lock && .venv-lock/bin/python -m pip install --quiet uv; }
	@env -u PIP_FIND_LINKS -u UV_FIND_LINKS -u UV_INDEX -u UV_INDEX_URL -u UV_EXTRA_INDEX_URL -u UV_DEFAULT_INDEX \
	  .venv-lock/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
	  --extra dev --extra testing --extra plot --extra spark --extra postgres --extra placement \
	  --no-emit-package rankcast --output-file requirements.lock pyproject.toml lab/pyproject.toml
	@! grep -nE '://|--(extra-)?index|--find-links|file:' requirements.lock || { echo "lock: the lines above must not be in the lock" >&2; exit 1; }

clean: ## Remove everything that set-up, checks and builds made
	rm -rf .venv .venv-lock .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .bench build dist out
	find src tests lab -name __pycache__ -type d -prune -exec rm -rf {} +
