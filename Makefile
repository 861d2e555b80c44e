# Two commands on a fresh machine with python3: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q
TORCH  := $(shell grep -m1 '^torch==' constraints.txt)

.PHONY: demo test docs lint types check format clean

demo: $(VENV)/.installed          ## train two translators and draw their alignments
	$(BIN)/regard demo

test: $(VENV)/.installed-dev lint types          ## lint, types, all tests
	$(BIN)/pytest -n 2 --dist loadgroup

docs: $(VENV)/.installed-docs          ## the documentation, into site/
	$(BIN)/python docs/build.py
	$(BIN)/mkdocs build --strict -q

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) site demo .pytest_cache .mypy_cache .ruff_cache .hypothesis

# torch goes first, at its pin: a CPU build that pip can find is then kept, and nothing asks for another
$(VENV)/.torch: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install "$(TORCH)"
	touch $@

$(VENV)/.installed: $(VENV)/.torch pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e ".[dev]"
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e ".[docs]"
	touch $@
