# `make run` shows the compiler at work; `make test` checks it. Both set everything up.
# `make quick` is for every change, `make test` for every commit, `make nightly` for every night.

# The first Python that runs and is new enough; a version manager's stub may do neither.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JOBS ?= 2
PYTEST = $(BIN)/pytest -n $(JOBS) --dist worksteal

# Tools start many short processes; each would compile all modules again without their bytecode.
unexport PYTHONDONTWRITEBYTECODE

# `make test CPU=haswell`: what is compiled for if nothing is said, here and in the tests.
ifdef CPU
export TCOPT_CPU := $(CPU)
endif

.PHONY: help run quick quick-lint test nightly times pytest lit numerics conformance conformance-devices sizes guard wild exports levels gpu-models fuzz faults rtl lint format docs bench inner-loops setup tools clean

help:
	@echo "make run     compile ResNet-50, run it, compare with onnxruntime"
	@echo "make quick   lint what changed, lit tests, and the tests that take little time (a minute)"
	@echo "make test    what a commit must pass (pytest and lit)"
	@echo "make nightly everything there is: all networks, CPUs, campaigns and random inputs (hours)"
	@echo "make times   measure how long each test file takes, by which tests are ordered"
	@echo "make test CPU=haswell   the same, compiling for that CPU, which this machine must be able to run"
	@echo "make conformance  all of ONNX's backend suite (make test runs a part)"
	@echo "make conformance-devices  the same on an OpenCL device and as executed PTX (make test runs some)"
	@echo "make wild  trained networks of other packages, compared and timed"
	@echo "make sizes   ONNX's cases with ranges of sizes (make test runs a part)"
	@echo "make guard   ONNX's cases and changed feeds between guard pages (make test runs a part)"
	@echo "make exports  all networks exported from PyTorch (make test compiles some)"
	@echo "make levels  the CPUs that this machine can stand for, compared with each other (long)"
	@echo "make gpu-models  whole models on the OpenCL device and through ptxas (long)"
	@echo "make fuzz    thousands of mutated texts through all passes (make test runs some)"
	@echo "make faults  plant faults into passes, which --verify-each=exec has to find"
	@echo "make rtl     random programs on the accelerator and on a core of it as hardware (make test runs some)"
	@echo "make lint    ruff, pyright and the import directions"
	@echo "make format  let ruff fix and format"
	@echo "make docs    write the generated pages of docs/"
	@echo "make bench   measure layers and models against other runtimes (long)"
	@echo "make inner-loops  what llvm-mca says of the innermost loops of layers, by target"
	@echo "make clean   remove what the above made"

run: setup
	@$(BIN)/python -m tcopt.tools.demo

test: setup tools pytest lit

quick: setup quick-lint
	@TCOPT_LIT_QUICK=1 $(BIN)/lit -q -j$(JOBS) --order=smart lit_tests
	@$(PYTEST) --quick

# Files of the package that differ from the last commit, by the names that pyright knows them by.
CHANGED = $(shell git diff --name-only --diff-filter=d HEAD -- '*.py' | \
  grep -vE '^(tests|benchmarks|examples|lit_tests|docs)/' | sed 's|^src/tcopt/||; s|^|src/tcopt/|')

quick-lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@test -z "$(CHANGED)" || $(BIN)/pyright $(CHANGED)

nightly: setup tools
	@$(PYTEST) --nightly
	@TCOPT_LIT_PROCESSES=1 $(BIN)/lit -q -j$(JOBS) lit_tests
	@for cpu in $$($(BIN)/python tests/levels/run.py --list); do \
	  $(MAKE) --no-print-directory numerics CPU=$$cpu || exit 1; done
	@$(MAKE) --no-print-directory conformance conformance-devices sizes guard exports wild levels gpu-models fuzz faults rtl

times: setup tools
	@$(PYTEST) --record-times

pytest: setup
	@$(PYTEST)

lit: setup
	@$(BIN)/lit -q -j$(JOBS) --order=smart lit_tests

conformance: setup
	@$(BIN)/python tests/conformance/run.py --jobs $(JOBS)

conformance-devices: setup
	@for target in opencl cuda:sm_80; do \
	  $(BIN)/python tests/conformance/run.py --jobs $(JOBS) --target $$target || exit 1; done

wild: setup
	@$(BIN)/python tests/wild/run.py

sizes: setup
	@$(BIN)/python tests/sizes/run.py --jobs $(JOBS)

guard: setup
	@$(BIN)/python tests/memory/run.py --jobs $(JOBS)

exports: setup
	@$(BIN)/python tests/exports/run.py

levels: setup
	@TCOPT_CACHE=kernels $(BIN)/python tests/levels/run.py --jobs $(JOBS)

# The part of the tests that is about results of code for the CPU.
NUMERICS := tests/schedules/rules/cpu tests/backends/llvm tests/networks/test_gather.py \
  tests/networks/test_permuted_stores.py tests/networks/test_quantized_bytes.py \
  tests/networks/test_integer_division.py tests/networks/test_bits.py

numerics: setup
	@$(PYTEST) $(NUMERICS)

gpu-models: setup
	@$(BIN)/python tests/device/whole_models.py

MUTANTS ?= 20000
SEED ?= 0

fuzz: setup
	@$(BIN)/python tests/fuzz/run.py --mutants $(MUTANTS) --seed $(SEED) --jobs $(JOBS)

faults: setup
	@$(BIN)/python tests/faults/run.py

MACHINES ?= 200

rtl: setup
	@TCOPT_RTL_MACHINES=$(MACHINES) $(PYTEST) tests/vdla/test_rtl.py

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright
	@PYTHONPATH=tests $(BIN)/python tests/docs/check_types.py
	@$(BIN)/lint-imports

format: setup
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: setup
	@$(BIN)/python -m tcopt.tools.gen_docs

bench: setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	@$(BIN)/python benchmarks/run.py --output results.json --resume --chart results.svg

inner-loops: setup
	@$(BIN)/python benchmarks/inner_loops.py

setup: $(READY)

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || \
	  { echo "error: Python 3.11 or newer is needed (PYTHON=... names one)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "error: cannot make $(VENV); on Debian: apt-get install python3-venv"; exit 1; }
	@echo "installing tcopt and what its tests need into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@$(BIN)/python -m tcopt.tools.check_system
	@touch $@

# Optional: MLIR's own tools, against which the lowered levels are checked, llvm-mca, the compiler
# that the thread pool's text is made with, a compiler and an emulator for AArch64, OpenCL on the
# CPU, PostgreSQL for records of tuning, and what LightGBM needs. Tests that need what cannot be had
# are skipped, and say so.
OPTIONAL_COMMANDS := mlir-opt-19 llvm-mca-19 clang-19 qemu-aarch64 aarch64-linux-gnu-gcc
OPTIONAL_FILES := /etc/OpenCL/vendors/pocl.icd /usr/lib/postgresql
OPTIONAL_PACKAGES := mlir-19-tools llvm-19 clang-19 qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
  pocl-opencl-icd postgresql libgomp1

tools: setup
	@(for c in $(OPTIONAL_COMMANDS); do command -v $$c >/dev/null || exit 1; done; \
	  for f in $(OPTIONAL_FILES); do test -e $$f || exit 1; done; \
	  ldconfig -p | grep -q libgomp.so.1) || \
	  test -e $(VENV)/.tools-tried || \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	    echo "installing $(OPTIONAL_PACKAGES)" && \
	    DEBIAN_FRONTEND=noninteractive apt-get -qq update >/dev/null 2>&1 && \
	    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
	      $(OPTIONAL_PACKAGES) >/dev/null 2>&1; } || \
	  echo "note: tests that need one of these are skipped: $(OPTIONAL_COMMANDS) PoCL PostgreSQL libgomp"
	@touch $(VENV)/.tools-tried

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
