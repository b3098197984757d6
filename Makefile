# `make` alone lists what there is. Everything happens in .venv; PYTHON names the interpreter that makes it (3.11 or later).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help check demo test test-all lint bench soak docs site pictures testcerts fuzz mutate limbo crash wheels release clean

QUICK := callbacks evidence httpsig inbox protocol qr seals trust
LEFT_OUT := $(filter-out __pycache__ $(QUICK),$(notdir $(patsubst %/,%,$(wildcard tests/*/))))

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

# The stamps hold what was installed: the demo needs the sandbox extra, the site the docs extra, everything else the dev extra.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("tppkit needs Python 3.11 or later; make PYTHON=python3.12 names another") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.sandbox: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e '.[sandbox]'
	@touch $@

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e '.[docs]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.sandbox $(VENV)/.docs

demo: $(VENV)/.sandbox ## The main job end to end: pay through a sandbox bank, audit what was kept
	@$(BIN)/tppkit demo

check: lint ## Lint, then the tests of protocol, seals, trust, evidence and callbacks: the quick answer while you work
	$(BIN)/pytest -m "not slow" $(addprefix tests/,$(QUICK)) tests/test_codes.py tests/certificates/test_rule_breaks.py
	@echo 'make check leaves out tests of: $(LEFT_OUT) and those directly in tests/. make test runs them too.'

test: $(VENV)/.dev ## Run the tests that need nothing but this project, within three minutes
	$(BIN)/pytest -m "not slow"

test-all: $(VENV)/.dev ## Run every test: also databases, proxies and other servers, kills, whole matrices
	$(BIN)/pytest

lint: $(VENV)/.dev ## ruff, mypy --strict (examples too), pyright on tests/typing, import-linter, generated files
	$(BIN)/ruff format --check src tests tools benchmarks examples fuzz docs/*.py
	$(BIN)/ruff check src tests tools benchmarks examples fuzz docs/*.py
	$(BIN)/mypy
	for example in $(sort $(foreach file,$(wildcard examples/*/*.py examples/*/*/*.py),$(word 2,$(subst /, ,$(file))))); do $(BIN)/mypy examples/$$example || exit; done
	$(BIN)/pyright --pythonpath $(BIN)/python tests/typing
	$(BIN)/lint-imports
	$(BIN)/python tools/make_testcerts.py --check
	$(BIN)/python tools/make_docs.py --check

bench: $(VENV)/.dev ## Measure what the project promises; writes results.json and machine.json in benchmarks/
	$(BIN)/python benchmarks/run.py

soak: $(VENV)/.dev ## The same for 100,000 rows, a million entries of the inbox and long rates; then ten minutes of a bank behind nginx; takes long
	$(BIN)/python benchmarks/run.py soak
	SOAK_SECONDS=600 $(BIN)/pytest -n 0 -s -o faulthandler_timeout=0 tests/trust/test_soak.py

docs: $(VENV)/.dev ## Write the reference pages in docs/reference from tables, docstrings and --help
	$(BIN)/python tools/make_docs.py

site: $(VENV)/.docs ## Build the documentation site into site/, without a network; warnings are errors
	$(BIN)/python tools/make_site.py

pictures: $(VENV)/.dev ## Write the pictures in docs/pictures again, as Chromium shows them
	$(BIN)/python tools/make_pictures.py
	$(BIN)/python tools/make_diagrams.py

testcerts: $(VENV)/.dev ## Write testcerts/ again, byte for byte
	$(BIN)/python tools/make_testcerts.py

# FUZZ_SECONDS is the time for each reader.
FUZZ_SECONDS ?= 60
fuzz: $(VENV)/.dev ## Every reader under libFuzzer, then the property tests with many more examples
	$(BIN)/python fuzz/run.py --seconds $(FUZZ_SECONDS)
	HYPOTHESIS_PROFILE=deep $(BIN)/pytest -o faulthandler_timeout=0 -m "not shared" -k "escapes or round_trip or mutat or hostile"

mutate: $(VENV)/.dev ## Remove each check of the verifying code in turn; fail if the fast tests pass without it; takes 25 minutes
	$(BIN)/python tools/mutate.py

# LIMBO names the file that x509-limbo's own `limbo compile` writes; it is not part of this project.
LIMBO ?= limbo.json
limbo: $(VENV)/.dev ## Compare verdicts on chains with x509-limbo's; fails when one became more lenient
	$(BIN)/python tools/limbo.py $(LIMBO)

crash: $(VENV)/.dev ## Kill the sandbox and its gateway 50 times each, the outbox 30 times, an archive at every step; test-all kills the inbox so often; takes long
	SANDBOX_KILLS=50 $(BIN)/pytest -n 0 -s -o faulthandler_timeout=0 tests/sandbox/test_kills.py tests/sandbox/test_gateway_kills.py
	CRASH_KILLS=30 $(BIN)/pytest -o faulthandler_timeout=0 tests/evidence/test_outbox.py -k kill
	$(BIN)/pytest -o faulthandler_timeout=0 tests/evidence/test_crashes.py tests/evidence/test_archive_crash.py

# WHEELS is the folder. The image has Python 3.11, that of debian:12-slim, and the processor of this machine.
WHEELS ?= examples/containers/wheels
FOR_IMAGE := --only-binary=:all: --python-version 3.11 $(foreach glibc,2_36 2_34 2_28 2_17,--platform manylinux_$(glibc)_$(subst arm64,aarch64,$(shell uname -m)))
wheels: | $(BIN)/python ## Fill examples/containers/wheels for the Containerfile
	rm -f "$(WHEELS)"/*.whl
	$(PIP) wheel --no-deps -w "$(WHEELS)" .
	$(PIP) download -c constraints.txt $(FOR_IMAGE) -d "$(WHEELS)" "$$(echo "$(WHEELS)"/tppkit-*.whl)[sandbox,postgres]"

# RELEASE has the publisher's addresses: --url Source=ADDRESS for the metadata, --files ADDRESS for links of the README.
release: $(VENV)/.dev ## Build what is committed into dist/, twice and the same; install, test and describe it; takes ten minutes
	$(BIN)/python tools/release.py $(RELEASE)

clean: ## Remove what the targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist site examples/containers/wheels
