# Every target sets itself up in .venv from constraints.txt; a stamp makes that free when nothing
# changed. Paths are relative, so the checkout may live in a folder with spaces in its name.

TASK ?= fish
ARGS ?=
HOURS ?= 2
SEEDS ?= 10000
# V=1 shows what pip does.
V ?=
# ROM=none leaves the package out whose directory holds Super Mario Bros., which is not free.
ROM ?= package

SHELL := /bin/sh
BIN := .venv/bin
PIP_FLAGS := --disable-pip-version-check $(if $(V),,-qq)
PIP := $(BIN)/python -m pip install $(PIP_FLAGS) -c constraints.txt

# What each kind of work installs beside the core.
train_EXTRAS := atari,box2d,mujoco,parquet,plots,search,tb,video,web
dev_EXTRAS := atari,box2d,cluster,dev,marl,mujoco,onnx,parquet,peers,plots,search,tb,video,web
prove_EXTRAS := $(dev_EXTRAS),mlflow,wandb
docs_EXTRAS := atari,box2d,docs,mujoco

# Has a higher floor of coverage than the whole package, whose floor is in pyproject.toml.
GUARDED := src/longhaul/core/*,src/longhaul/learn/*,src/longhaul/runs/*,src/longhaul/schedule/*

# Never a dependency: installed without its own ones, and its code is never imported.
ROM_PACKAGE := gym-super-mario-bros
# Holds the core that tests compare the console with; nothing else of it is used.
ORACLE_PACKAGE := stable-retro==1.0.1
GAME := $(if $(filter none,$(ROM)),,.venv/rom)

# NetHack comes as a wheel for some versions of Python only; building it needs more than pip brings.
NETHACK := .venv/nethack

# What is compiled to native code, once, into the caches beside it.
NATIVE := src/longhaul/core/native.py $(wildcard src/longhaul/learn/native/*.py \
	src/longhaul/envs/native/*.py src/longhaul/tasks/probe/*.py src/longhaul/tasks/atari/*.py \
	src/longhaul/tasks/fish/world/*.py src/longhaul/tasks/mario/*/*.py \
	src/longhaul/tasks/nethack/observation/*.py)

# A virtual environment holds absolute paths: one that was moved is made again.
ifneq "$(shell cat .venv/made-in 2>/dev/null)" "$(CURDIR)"
MOVED := moved
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: train test portable lint check guarded prove prove-slice chromium soak simulate bench size peers-mario \
	peers-sample-factory peers-atari docs clean help moved

train: .venv/ready-train $(if $(filter mario%,$(TASK)),$(GAME)) $(if $(filter nethack%,$(TASK)),$(NETHACK)) ## train TASK (default fish); more options in ARGS="..."
	@$(BIN)/longhaul train "$(TASK)" $(ARGS)

test: .venv/ready-dev $(GAME) $(NETHACK) .venv/compiled ## run the test suite; ARGS="-m slow" for the long ones
	@$(BIN)/python -m pytest $(ARGS)

portable: .venv/ready-dev .venv/compiled ## the tests of processes and files without what only Linux has, as on macOS
	@LONGHAUL_PORTABLE=1 $(BIN)/python -m pytest -m 'not slow' tests/envs/processes tests/runs \
		tests/cli/test_process.py tests/app/test_kill.py tests/app/experiments/test_jobs.py

lint: .venv/ready-dev ## format, lint, spelling, types and layers, without the tests
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/codespell
	@$(BIN)/python -m docs.tools.phrases
	@$(BIN)/mypy
	@$(BIN)/lint-imports

check: lint $(GAME) $(NETHACK) .venv/compiled ## lint, then all tests with the coverage floor: one meaning of green
	@$(BIN)/python -m pytest -n 0 tests/test_layout.py tests/test_repository.py
	@$(BIN)/python -m pytest -m 'not slow' --cov
	@$(MAKE) --no-print-directory guarded

guarded: # the floor of what a gap in costs a long run, over the coverage that was measured last
	@printf 'Coverage of what a gap in costs a long run, in percent: '
	@$(BIN)/coverage report --include="$(GUARDED)" --fail-under=90 --format=total

prove prove-slice: .venv/ready-prove $(GAME) $(NETHACK) .venv/compiled peers-mario chromium
prove: ## run the slow, browser and emulator tests and write docs/internal/proof.md; ARGS="tests/..." for some
	@$(BIN)/python -m docs.tools.prove $(ARGS)

prove-slice: ## run the security tests in Chromium and proofs that the commit chooses, ten minutes at most
	@$(BIN)/python -m docs.tools.prove --slice

chromium: ## install Chromium and its driver for the browser tests, on Debian and as root
	@if command -v chromium && command -v chromedriver; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get; then \
		apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
			apt-get -qq install -y --no-install-recommends chromium chromium-driver; \
	else false; fi >/dev/null \
	|| echo "Chromium could not be installed (it takes apt and root): browser tests do not run" >&2

soak: .venv/ready-dev ## train for HOURS under kills, stops, a full disk and clock jumps, and compare
	@$(BIN)/python -m tests.durability.soak --hours "$(HOURS)" $(ARGS)

simulate: .venv/ready-dev ## live through SEEDS histories of faults, in a simulated world, with the real classes
	@$(BIN)/python -m tests.durability.simulation --seeds "$(SEEDS)" $(ARGS)

bench: .venv/ready-dev $(if $(filter nethack%,$(TASK)),$(NETHACK)) ## steps per second on TASK, beside Stable-Baselines3
	@$(BIN)/python -m benchmarks.peers "$(TASK)" $(ARGS)

peers-mario: ## put other people's ways to run the game into .venv-peers, to compare with
	@test -d .venv-peers || "$${PYTHON:-python3}" -m venv .venv-peers
	@.venv-peers/bin/python -m pip install $(PIP_FLAGS) setuptools==65.5.1 wheel==0.45.1
	@.venv-peers/bin/python -m pip install $(PIP_FLAGS) --no-build-isolation \
		-r benchmarks/mario_peers.txt
	@.venv-peers/bin/python -m pip install $(PIP_FLAGS) --no-deps $(ORACLE_PACKAGE)

peers-sample-factory: ## put Sample Factory into .venv-sample-factory, to compare with
	@test -d .venv-sample-factory || "$${PYTHON:-python3}" -m venv .venv-sample-factory
	@.venv-sample-factory/bin/python -m pip install $(PIP_FLAGS) \
		-r benchmarks/sample_factory_peer.txt

peers-atari: peers-sample-factory ## also put CleanRL and EnvPool beside it, to compare training on Atari with
	@.venv-sample-factory/bin/python -m pip install $(PIP_FLAGS) --no-deps --ignore-requires-python \
		-r benchmarks/atari_peers.txt

docs: .venv/ready-docs ## write docs/reference/, then build site/, failing on a broken link
	@$(BIN)/python -m docs.tools.reference docs/reference
	@$(BIN)/python -m docs.tools.architecture
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

size: .venv/made-in ## lines and files of src by package, and the change since SINCE (default HEAD~)
	@$(BIN)/python -m benchmarks.size $(SINCE)

clean: ## remove .venv, caches and built pages; runs/ is kept
	@rm -rf .venv .venv-peers .venv-sample-factory .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@rm -rf .coverage htmlcov site build dist
	@find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## list these targets
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile \
		| while IFS='|' read -r name what; do printf '  make %-20s %s\n' "$$name" "$$what"; done

# hatchling first and no build isolation: the editable build then needs no network of its own.
.venv/made-in: $(MOVED)
	@python=; \
	if [ -n "$$PYTHON" ]; then set -- "$$PYTHON"; \
	else set -- python3.11 python3.12 python3.13 python3; fi; \
	for candidate in "$$@"; do \
		if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
			python=$$candidate; break; \
		fi; \
	done; \
	if [ -z "$$python" ]; then \
		echo "longhaul needs Python 3.11 or newer; $${PYTHON:-python3} is" \
			"$$("$${PYTHON:-python3}" -V 2>/dev/null || echo missing)." \
			"Install one, or name it: make PYTHON=python3.12" >&2; exit 1; \
	fi; \
	echo "Making .venv with $$("$$python" -V)"; \
	"$$python" -m venv --clear .venv || { \
		echo "could not make .venv; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(PIP) hatchling editables
	@pwd -P > $@

.venv/ready-%: pyproject.toml constraints.txt .venv/made-in
	@echo "Installing what '$*' needs (minutes the first time, nothing afterwards)"
	@$(PIP) --no-build-isolation -e '.[$($*_EXTRAS)]'
	@touch $@

# Without the game its tests skip and say so; so does training without it.
.venv/rom: constraints.txt .venv/made-in
	@if $(PIP) --no-deps $(ROM_PACKAGE); then touch $@; \
	else echo "$(ROM_PACKAGE) could not be installed: what needs the game is left out" >&2; fi

# Without it its tests skip and say so; training it stops and says so.
.venv/nethack: pyproject.toml constraints.txt .venv/made-in
	@if $(PIP) --no-build-isolation --only-binary nle -e '.[nethack]'; then touch $@; \
	else echo "nle could not be installed: what needs NetHack is left out" >&2; fi

.venv/compiled: $(NATIVE)
	@echo "Compiling the environments (a minute the first time)"
	@$(BIN)/longhaul warm-up probe:chase fish
	@$(BIN)/longhaul warm-up
	@touch $@
