# Every target sets up what it needs: a virtual environment in .venv, made once and refreshed when
# pyproject.toml changes. All it asks for is make and Python 3.11 or newer.
#
#   make clean test PYTHON=/path/to/python   choose the interpreter
#   make test WORKERS=2                      run tests in two processes; most of them wait

# Tests start some hundred processes. Where somebody has asked for no compiled files, each of them would
# compile all of Duly: a second and a half of processor for what takes a third of one.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:

PYTHON ?=
WORKERS ?= 4
SECONDS ?= 60
TIMES ?= 30
FOR ?=
FAULTS ?= 500
SEEDS ?= 1000
EXAMPLES ?= 50
FIRST ?= 0
SEED ?=
STORE ?= memory
WORLDS ?= plain
QUICK ?=
CANDIDATES := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python)
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --editable

.PHONY: help demo test near steady test-all check lint corpora bench bench-full chaos fuzz fuzz-api simulate mutants format clean lock sbom screenshots

help:     ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: .venv/ready-demo    ## a working system to look at, with two weeks of history, until Ctrl-C
	@$(BIN)/duly demo $(if $(FOR),--for $(FOR))

test: programs    ## run what guards every change, in eight minutes on two cores
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --costs=.report --junitxml .report/junit.xml -m "not thorough"

near: programs    ## run the tests that belong to the uncommitted change, in half a minute
	@$(BIN)/python -m tests.near -n 2

steady: programs    ## repeat the tests that depend most on time, TIMES (30) times beside two busy loops
	@$(BIN)/python -m tests.steady --times $(TIMES)

test-all: programs    ## run every test: second stores, campaigns, demos; before a release
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --costs=.report/all --junitxml .report/all/junit.xml

check: lint              ## what lint says, and tidiness, which is one of the tests
	@$(BIN)/python -m pytest --quiet tests/test_tidy.py

lint: .venv/ready-check  ## format, lint, types, direction of imports
	$(BIN)/ruff format --check
	$(BIN)/ruff check --quiet
	@# Types are looked at twice, and each time that takes one core for the better part of a minute.
	$(BIN)/mypy --no-error-summary & types=$$!; \
	$(BIN)/pyright && $(BIN)/lint-imports --no-logo; \
	others=$$?; wait $$types && exit $$others

corpora: corpora-folder .venv/ready-test    ## compare with other schedulers' answers, read from $DULY_CORPORA
	@$(BIN)/python -m pytest -n $(WORKERS) tests/corpora

bench: .venv/ready-test   ## measure Duly and its best peers, into BENCHMARKS.md; some eleven minutes
	@$(BIN)/python -m bench $(if $(QUICK),--small --results .bench/small)

bench-full: .venv/ready-test   ## measure everything and everybody; hours (QUICK=1: small sizes)
	@$(BIN)/python -m bench --full $(if $(QUICK),--small --results .bench/small)
	@$(BIN)/python -m bench.parts.timetables
	@$(BIN)/python -m bench.parts.takeover
	@$(BIN)/python -m bench.parts.effect_cost
	@$(BIN)/python -m bench.parts.search
	@$(BIN)/python -m bench.parts.scrape
	@$(BIN)/python -m bench.parts.pages

chaos: .venv/ready-failover   ## real processes under load, killed and stopped for SECONDS (60)
	@$(BIN)/python -m tests.system.campaign $(SECONDS) $(SEED)
	@$(BIN)/python -m tests.system.postgres_campaign $(SECONDS) $(SEED)
	@$(BIN)/python -m tests.system.work_campaign sqlite $(SECONDS) $(SEED)
	@$(BIN)/python -m tests.system.work_campaign postgres $(SECONDS) $(SEED)
	@$(BIN)/python -m tests.system.effects_campaign sqlite $(FAULTS) $(SEED)
	@$(BIN)/python -m tests.system.effects_campaign postgres $(FAULTS) $(SEED)
	@$(BIN)/python -m tests.failover.campaign $(SECONDS) $(SEED)

fuzz: .venv/ready-fuzz    ## try to break what reads timetables, then all else that reads text, for SECONDS (60) each
	@mkdir -p .fuzz/timetables .fuzz/texts
	@$(BIN)/python tests/fuzz/timetables.py -max_total_time=$(SECONDS) -timeout=2 -max_len=400 \
	    -dict=tests/fuzz/words.dict -artifact_prefix=.fuzz/ -verbosity=0 -print_final_stats=1 .fuzz/timetables
	@$(BIN)/python -m tests.fuzz.texts -max_total_time=$(SECONDS) -timeout=2 -max_len=1000 \
	    -dict=tests/fuzz/words.dict -artifact_prefix=.fuzz/ -verbosity=0 -print_final_stats=1 .fuzz/texts

fuzz-api: .venv/ready-test   ## ask the HTTP API what its description allows and what not: EXAMPLES (50) of each
	@DULY_FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest --quiet --timeout=3600 tests/api/test_hostile_requests.py

sbom: .venv/ready-test    ## what Duly is made of, as CycloneDX JSON, into dist/sbom.cdx.json
	@mkdir -p dist && $(BIN)/python -m tests.supply_chain.sbom > dist/sbom.cdx.json && echo dist/sbom.cdx.json

lock: .venv/ready-test    ## what an installation takes here, with hashes for pip's --require-hashes, into dist/duly.lock
	@mkdir -p dist && $(BIN)/python -m pip install -qq --disable-pip-version-check --dry-run --ignore-installed \
	    --report dist/report.json '.[calendars,otel,postgres,webhooks]'
	@$(BIN)/python -m tests.supply_chain.lock < dist/report.json > dist/duly.lock && rm dist/report.json && echo dist/duly.lock

simulate: .venv/ready-test    ## crash, pause and skew simulated processes: SEEDS (1000) worlds, from FIRST (0), on STORE (memory, postgres), of WORLDS (plain, effects, limits, standing, watch)
	@$(BIN)/python -m tests.simulation.campaign --first $(FIRST) --seeds $(SEEDS) --store $(STORE) --worlds $(WORLDS)

mutants: .venv/ready-test    ## change the code and see which tests notice: those made by hand, then five drawn by SEED (1) from each of MODULES
	@$(BIN)/python -m tests.mutation --hand
	@$(if $(MODULES),$(BIN)/python -m tests.mutation --seed $(or $(SEED),1) $(MODULES))

screenshots: .venv/ready-test   ## take the pictures of docs/screenshots anew, of the demo
	@$(BIN)/python -m tests.web.screenshots

format: .venv/ready-test  ## rewrite the code as `make check` wants it
	$(BIN)/ruff check --quiet --fix-only
	$(BIN)/ruff format

clean:    ## remove what the other targets made
	rm -rf .venv .bench .fuzz .report build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Programs that tests need: the distribution's headless browser, two shells, and PgBouncer, which is only
# unpacked below .venv so that no service starts. They are installed where that is allowed; elsewhere the tests
# that need one say why they are skipped. $CI makes a skip for a missing program a failure.
.PHONY: programs
programs: .venv/ready-test
	@missing=; [ -x "$${DULY_CHROMIUM:-/usr/bin/chromium-headless-shell}" ] || missing=chromium-headless-shell; \
	for one in fish openssl zsh; do command -v "$$one" >/dev/null || missing="$$missing $$one"; done; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "Installing $$missing for the tests …" >&2; \
	    apt-get install -qq -y --no-install-recommends $$missing >/dev/null 2>&1 || \
	    { apt-get update -qq && apt-get install -qq -y --no-install-recommends $$missing >/dev/null; } || \
	    echo "$$missing could not be installed: tests that need them are skipped" >&2; \
	fi
	@$(BIN)/python -m tests.postgres.pgbouncer

.PHONY: corpora-folder
corpora-folder:
	@if [ -z "$$DULY_CORPORA" ]; then \
	    echo "DULY_CORPORA is not set; name the folder of corpora: make corpora DULY_CORPORA=/path/to/corpora" >&2; exit 1; \
	elif [ ! -d "$$DULY_CORPORA" ]; then \
	    echo "DULY_CORPORA names '$$DULY_CORPORA', which is not a folder; name the folder of corpora." >&2; exit 1; \
	fi

# What is ready for checking is ready for testing, and what is ready for that is ready for the demo.
.venv/ready-check .venv/ready-failover .venv/ready-fuzz .venv/ready-test: .venv/ready-%: pyproject.toml .venv/made-in
	@echo "Installing Duly and what it needs for make $* into .venv …" >&2
	@# Groups need pip 25.1; Python 3.11 to 3.13 come with an older one.
	@$(BIN)/python -m pip install -qq --disable-pip-version-check 'pip>=25.1'
	@$(INSTALL) '.[all]' --group $* --editable ./conformance
	@touch .venv/ready-demo .venv/ready-test $@

.venv/ready-demo: pyproject.toml .venv/made-in
	@echo "Installing Duly into .venv …" >&2
	@$(INSTALL) '.[calendars,postgres,webhooks]'
	@touch $@

# An environment holds the path it was made in, twice over: in its scripts and in the link to src.
# In a clone that was moved or copied it would quietly run the other clone's code, so it is remade.
ifneq ($(shell cat .venv/made-in 2>/dev/null),$(CURDIR))
.PHONY: .venv/made-in
endif

# A candidate is tried and not just looked up: a name on PATH may be an empty promise. One without
# venv is passed over while there is another.
.venv/made-in:
	@chosen=; bare=; \
	for candidate in $(CANDIDATES); do \
	    "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    if "$$candidate" -c 'import ensurepip, venv' 2>/dev/null; then chosen=$$candidate; break; fi; \
	    bare=$${bare:-$$candidate}; \
	done; \
	if [ -z "$$chosen$$bare" ]; then \
	    echo "Duly needs Python 3.11 or newer, and none of '$(CANDIDATES)' is one; install it, or name it with PYTHON=." >&2; exit 1; \
	elif [ -z "$$chosen" ]; then \
	    echo "$$bare has no venv module; install it (on Debian and Ubuntu: the package python3-venv), or name another Python with PYTHON=." >&2; exit 1; \
	fi; \
	echo "Making .venv with $$chosen …" >&2; \
	"$$chosen" -m venv --clear .venv && pwd -P > $@
