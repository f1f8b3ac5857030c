# What a person types.  Each target needs only python3 >= 3.11 with venv and pip; it makes .venv itself, once.
#
#   make demo                                    the product in motion, without a GPU
#   make test                                    checks and the default suite
#   make test-engines ENGINES="llamacpp vllm"    against real engines
#   make test PYTHON=python3.14                  any of them with that Python, in an environment of its own

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?=
VENV := .venv$(if $(PYTHON),-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PACKAGES := gateway routing mirror analysis config wire emulator workload
ENGINES ?= llamacpp
ENGINES_DIR ?= .engines
CLIENTS ?= litellm locust aiperf genai-bench guidellm inference-perf llmperf sglang-router vllm-router
CLIENTS_DIR ?= .clients
PYTEST_ARGS ?=
# Most tests wait for sockets and processes: many run beside one another, and who is done takes from who is not.
IN_PARALLEL ?= -n 6 --dist worksteal
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
SOAK_SECONDS ?= 600
FUZZ ?=
FUZZ_INPUTS ?= 1000000
# The suite starts hundreds of processes: what they load is compiled once, whatever the environment says of it.
unexport PYTHONDONTWRITEBYTECODE

# The python3 to make an environment with: one that runs, is at least 3.11 and has venv.
define find-python
for python in $${PYTHON:-python3.13 python3.12 python3.11 python3.14 python3}; do \
  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' > /dev/null 2>&1; then break; fi; \
  python=; \
done; \
if [ -z "$$python" ]; then \
  echo "Shadowlane needs Python 3.11 or newer with venv; none was found." >&2; \
  echo "Install one (Debian: apt-get install python3-venv), or say which: make PYTHON=/path/to/python3" >&2; \
  exit 1; \
fi
endef

.PHONY: help
help:  ## what there is to make
	@echo "Shadowlane. make TARGET, where TARGET is:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  %-14s %s\n' "$$name" "$$text"; done

.PHONY: demo
demo: $(VENV)/.runtime  ## two emulated engines, a control, three candidates, live traffic, dashboard, ranking
	@$(BIN)/shadowlane demo

.PHONY: test
test: check  ## check, then the default suite (no real engines)
	$(BIN)/pytest $(IN_PARALLEL) $(PYTEST_ARGS)

.PHONY: test-pythons
test-pythons:  ## the default suite with every Python of PYTHONS that is here, an environment for each
	@for python in $(PYTHONS); do \
	  if "$$python" -c 'import venv, ensurepip' > /dev/null 2>&1; then \
	    echo "== $$python"; $(MAKE) --no-print-directory test-only PYTHON="$$python"; \
	  else echo "== $$python is not here: skipped"; fi; \
	done

.PHONY: test-only
test-only: $(VENV)/.dev
	$(BIN)/pytest $(IN_PARALLEL) $(PYTEST_ARGS)

.PHONY: test-engines
test-engines: $(VENV)/.dev  ## the suite against real engines, ENGINES="llamacpp vllm" (installed into .engines)
	tests/e2e/install_engines.sh $(ENGINES_DIR) $(ENGINES)
	SHADOWLANE_ENGINES_DIR="$(abspath $(ENGINES_DIR))" $(BIN)/pytest -m engines $(PYTEST_ARGS)

.PHONY: test-clients
test-clients: $(VENV)/.dev  ## the suite with clients that are large: CLIENTS="litellm aiperf" (installed into .clients, 6 GB all)
	tests/clients/install_clients.sh $(CLIENTS_DIR) $(CLIENTS)
	CLIENTS_DIR="$(abspath $(CLIENTS_DIR))" $(BIN)/pytest -m clients -rs $(PYTEST_ARGS)

.PHONY: check
check: $(VENV)/.dev  ## formatting, lint, types, direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: fmt
fmt: $(VENV)/.dev  ## write the formatting and the fixes that are safe
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: docs
docs: $(VENV)/.dev  ## rewrite the tables of settings in docs/configuration.md
	$(BIN)/python -m config.reference docs/configuration.md

.PHONY: bench
bench: $(VENV)/.dev  ## what it costs, beside its peers (bench/README.md)
	@for bench in overhead latency streams curves; do echo "== $$bench"; $(BIN)/python -m "bench.$$bench"; done

.PHONY: fast
fast: $(VENV)/.runtime  ## the way of a request compiled to C, into build/fast (needs a C compiler)
	@command -v "$${CC:-cc}" > /dev/null || { echo "a C compiler is needed (Debian: apt-get install gcc)" >&2; exit 1; }
	@rm -rf build/fast build/source && mkdir -p build/source
	@cp -r $(PACKAGES) pyproject.toml README.md LICENSE build/source  # what is compiled lands beside its source
	CFLAGS="$${CFLAGS-} -fvisibility=hidden" HATCH_BUILD_HOOK_ENABLE_MYPYC=1 \
	  $(PIP) install --no-deps --target build/fast ./build/source
	@echo 'run it so: PYTHONPATH=$(CURDIR)/build/fast $(BIN)/shadowlane serve ...  (without PYTHONPATH the sources run)'

.PHONY: test-fast
test-fast: fast $(VENV)/.dev  ## the data plane's tests against what `make fast` built
	$(BIN)/pytest $(IN_PARALLEL) -o pythonpath="build/fast ." tests/wire tests/routing tests/failures $(PYTEST_ARGS)

.PHONY: soak
soak: $(VENV)/.dev  ## mixed traffic with faults for SOAK_SECONDS (600): nothing may fail, leak or grow unasked
	$(BIN)/python -m bench.soak --seconds $(SOAK_SECONDS)

.PHONY: fuzz
fuzz: $(VENV)/.dev  ## a million inputs for everything that reads bytes from outside; FUZZ="request_reader paths"
	@$(PIP) install --group fuzz
	$(BIN)/python -m fuzz $(FUZZ) --inputs $(FUZZ_INPUTS)

.PHONY: clean
clean:  ## remove what make made: environment, engines, clients, caches
	rm -rf .venv .venv-* $(ENGINES_DIR) $(CLIENTS_DIR) dist build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .fuzz

# --group needs pip 25.1, so pip is brought up to date first.
$(VENV)/.made:
	@if ! $(BIN)/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' > /dev/null 2>&1; then \
	  $(find-python); \
	  echo "making $(VENV) with $$("$$python" --version)"; \
	  "$$python" -m venv --clear $(VENV); \
	fi
	@$(PIP) install --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.runtime: $(VENV)/.made pyproject.toml
	@echo "installing what Shadowlane needs to run"
	@$(PIP) install --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@echo "installing what its tests and checks need"
	@$(PIP) install --group dev
	@touch $@
