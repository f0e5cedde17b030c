# Every target sets up what it needs in .venv by itself; a second run finds it there.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Where this is set, nothing is ever compiled, and every start pays for it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all attack check interop newest bench bench-quick docs clean compiled

help: ## print this
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | while IFS='	' read -r name what; do printf '  make %-12s %s\n' "$$name" "$$what"; done

demo: compiled ## watch the engine do a small job, no key and no network needed
	@$(BIN)/polylect demo

# Many tests wait for processes, so one worker more than there are cores keeps them busy.
SPREAD = -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --maxprocesses 4 --dist worksteal

test: compiled ## run the tests, but for the long ones
	@$(BIN)/python -m pytest -m "not long" $(SPREAD)

test-all: ## run the tests on every Python from 3.11 that this machine has
	@$(PYTHON) scripts/test_all.py

attack: compiled ## the long attacks: 100 000 command lines, 2000 tries of each race; a quiet quarter of an hour
	@$(BIN)/python scripts/attack.py

check: $(READY) docs ## lint, formatting, types, and links of the documentation
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

docs: site/index.html ## build the documentation site into site/

interop: compiled ## drive real peers, and be driven by them; then the long tests
	@$(BIN)/python scripts/interop.py
	@$(BIN)/python -m pytest -m long $(SPREAD)

newest: compiled ## the same with the newest versions of the peers: shows what has changed
	@$(BIN)/python scripts/newest.py

bench: compiled ## measure against the floor and seven peers, which it installs; a quiet half hour
	@$(BIN)/python bench/run.py

bench-quick: compiled ## the same with one peer and few rounds: a minute
	@$(BIN)/python bench/run.py --quick

clean: ## remove what the other targets made
	rm -rf .venv .make site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests bench scripts -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# An editable install is compiled by its first run, or never where PYTHONDONTWRITEBYTECODE is set: 170 ms of every start.
compiled: $(READY)
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -m polylect.app.startup.packed

PAGES := docs/. examples/. schemas/. $(wildcard docs/* *.md examples/*.py examples/*.mts schemas/*.json schemas/*.d.ts src/polylect/host/*.py src/polylect/vocab/*.py)
site/index.html: $(READY) $(PAGES) src/polylect/app/embed.py mkdocs.yml docs-constraints.txt $(wildcard scripts/docs*.py)
	@$(BIN)/python scripts/docs.py

$(READY): pyproject.toml constraints.txt scripts/prepare.py
	@$(PYTHON) scripts/prepare.py .venv
