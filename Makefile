# Needs Python 3.11 or later and nothing else: no root, no C compiler.
#
#   make demo        converts, validates, profiles and tunes a network on this machine, and tunes it on a played GPU; with
#                    DRIVER=intel, pypi or system on that OpenCL driver (Intel's is installed for it)
#   make test        the quick tests that need no root and a fifth of the slow ones, in turns; with FARM_EXHAUSTIVE=1 all,
#                    and every case on each OpenCL driver (CONTRIBUTING.md)
#   make frameworks  tests of models of TensorFlow, Keras, TFLite and PyTorch, in a .venv of their own (2 GB); PyTorch's
#                    where TORCH_INDEX=URL names the index of its CPU wheels
#   make integration tests on an emulated ARM64 board that runs (docs/board.md)
#   make bionic      farmrt for phones in qemu, on the C library of a phone where FARM_BIONIC=DIR names one
#   make oclgrind    every kernel in every variant under a simulator that checks memory and races (Debian: apt install oclgrind)
#   make again       the tests that failed in the last run, alone
#   make check       format, lint, types and quick tests (`./check`)
#   make setup       only .venv, with what development needs
#   make labgrid     labgrid's coordinator, for the tests of its places
#   make engines     LiteRT and ncnn with its converter, for the tests of other engines
#   make intel       Intel's OpenCL for CPUs too; `demo` and `test` do so where no other driver works (270 MB)
#   make snapshots   renews the page of all commands and options that a test compares
#   make sample      a report on the nights of an emulated farm, in reports/sample
#   make cluster-demo  two simulated hosts on this machine, one of which is killed (docs/cluster.md)
#   make clean       deletes what was built, downloaded and cached; `make distclean` .venv too
#
# Another Python: make PYTHON=/path/to/python3.12 demo

VENV := .venv
BIN := $(VENV)/bin
FRAMEWORKS := .venv-frameworks
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$name; break; }; done)
# One more than there are cores: some tests wait, for phones that come back and processes that end; each worker collects.
TEST_WORKERS ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count() + 1)')
# Each keeps a core busy.
SIMULATORS ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count())')
# Images for containers set it; the hundreds of Pythons that tests start would compile the sources again each time.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo cluster-demo test frameworks integration bionic oclgrind again check setup driver intel labgrid engines snapshots sample clean distclean
.NOTPARALLEL:  # two pips must not install at the same time

demo: $(VENV)/.runtime $(if $(filter intel,$(DRIVER)),intel,driver)
	$(BIN)/farm demo $(if $(DRIVER),--opencl $(DRIVER))

test: setup driver
	$(BIN)/pytest -n $(TEST_WORKERS) --dist worksteal --turns --durations 20 --ignore tests/integration --ignore tests/oclgrind

# What needs no framework is among the other tests. These may run beside the integration tests, whose cache is another;
# what waits for the board that those have comes last.
QUANTISED := tests/frameworks/test_quantised_sources.py
frameworks: $(FRAMEWORKS)/.installed
	$(FRAMEWORKS)/bin/pytest -v --durations 10 -p no:cacheprovider \
		$(filter-out $(QUANTISED),$(sort $(wildcard tests/frameworks/test_*.py))) $(QUANTISED) \
		--deselect $(QUANTISED)::test_a_quantised_model_of_onnx_is_right

integration: setup
	$(BIN)/pytest -v --durations 10 tests/integration

bionic: setup
	$(BIN)/pytest -rs tests/native/test_bionic.py

oclgrind: setup
	$(BIN)/pytest -n $(SIMULATORS) --dist worksteal -rs --durations 10 tests/oclgrind

# What failed in the last run, one test at a time on a machine that does nothing else.
again: setup
	$(BIN)/pytest -n 0 -rA --last-failed --last-failed-no-failures none

check: setup
	./check

setup: $(VENV)/.development

# PyPI's PoCL knows no CPU that came after it. Asked each time: this folder may have come to another machine.
driver: $(VENV)/.runtime
	@why=$$($(BIN)/python -m farm.farmrt.working_drivers) || \
		{ echo "$$why; installing Intel's from PyPI"; $(INSTALL) --editable '.[intel]'; }

intel: $(VENV)/.runtime
	$(INSTALL) --editable '.[intel]'

# labgrid's coordinator and client for the tests of its places, apart from .venv: it is a plugin of pytest too.
labgrid:
	$(PYTHON) -m venv build/labgrid
	build/labgrid/bin/python -m pip install --quiet --disable-pip-version-check labgrid

engines: setup
	$(INSTALL) ai-edge-litert ncnn
	$(INSTALL) --no-deps pnnx

snapshots: setup
	FARM_RENEW_SNAPSHOTS=1 $(BIN)/pytest tests/farm/cli/test_help.py
	git diff --stat -- tests/farm/cli/interface.txt

cluster-demo: $(VENV)/.development
	PYTHONPATH=. $(BIN)/python examples/cluster_demo.py

sample: $(VENV)/.runtime driver
	$(BIN)/farm demo --only nights --output reports/sample

clean:
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find farm runtime tuner tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) $(FRAMEWORKS) farm.egg-info

# The stamps are files in .venv: each says that its step was done, and pyproject.toml when it was done last.
$(VENV)/.created:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or later on PATH; install one, or: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "error: $(PYTHON) cannot make virtual environments; Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: pyproject.toml $(VENV)/.created
	$(INSTALL) --editable '.[compiler]'
	@touch $@

$(VENV)/.development: pyproject.toml $(VENV)/.created
	$(INSTALL) --editable '.[dev]'
	@touch $(VENV)/.runtime $@

$(FRAMEWORKS)/.installed: pyproject.toml
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[tensorflow,compiler]' pytest
	test -z "$(TORCH_INDEX)" || $(FRAMEWORKS)/bin/python -m pip install --quiet --disable-pip-version-check \
		--extra-index-url "$(TORCH_INDEX)" --editable '.[pytorch]' torchao
	@touch $@
