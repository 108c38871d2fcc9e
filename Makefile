# Everything runs in a virtual environment of its own: nothing but Python 3.11+ with pip is needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help demo test test-browser test-oldest test-newest check-wheel coverage docs docs-links bench bench-quick bench-dask lint format clean

help:
	@echo "make demo   repair a real table with errors and gaps, and write a picture and a report"
	@echo "make test   ruff, mypy, numpydoc and the tests"
	@echo "make docs   the site in build/site, with all examples of the gallery executed; needs no network"
	@echo "make docs-links  check the addresses outside the site, which needs a network"
	@echo "make test-browser  the site and the pages in a real browser; installs Chromium on Debian, as root"
	@echo "make test-oldest, test-newest  the tests with the oldest and the newest supported dependencies"
	@echo "make check-wheel  build the wheel, install it without extras and run the commands"
	@echo "make coverage  the tests with a report of the lines and branches that they reach"
	@echo "make bench  all methods on all problems, about half an hour; bench-quick, under two"
	@echo "make bench-dask  accuracy, speed and cost of rounds on a local Dask cluster, about ten minutes"
	@echo "make clean  remove the virtual environment and what the tools have left"

demo: $(VENV)/.demo
	$(BIN)/maxnorm demo --overwrite

test: lint
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -n auto --dist loadgroup

# The site has to stand alone: warnings are errors, and every link within it must lead somewhere.
docs: $(VENV)/.docs
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/sphinx-build -q -W --keep-going -b html docs build/site
	$(BIN)/python tools/check_links.py build/site

docs-links: $(VENV)/.docs
	$(BIN)/sphinx-build -q -b linkcheck -D plot_gallery=0 docs build/links

test-browser: $(VENV)/.browser docs
	$(BIN)/pytest -q tests/browser

test-oldest:
	$(PYTHON) tools/test_versions.py --oldest

test-newest:
	$(PYTHON) tools/test_versions.py

check-wheel:
	$(PYTHON) tools/check_wheel.py

coverage: $(VENV)/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -n auto --dist loadgroup \
	  --cov --cov-report=term:skip-covered --cov-report=html:build/coverage

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/bench.py

bench-quick: $(VENV)/.dev
	$(BIN)/python benchmarks/bench.py --quick

bench-dask: $(VENV)/.dev
	$(BIN)/python benchmarks/dask_rounds.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/check_docstrings.py

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Each environment is made anew when the requirements change.
$(VENV)/.demo: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[plot]"
	touch $@

$(VENV)/.dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@

$(VENV)/.docs: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[docs]"
	touch $@

# Chromium and its driver are Debian packages; Selenium drives them.
$(VENV)/.browser: $(VENV)/.dev
	command -v chromium && command -v chromedriver || { apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver; }
	$(BIN)/pip install --quiet --disable-pip-version-check "selenium>=4.20"
	touch $@

clean:
	rm -rf $(VENV) build docs/gallery docs/api/generated .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis
