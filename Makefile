# Two commands on a fresh machine with python3: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q
SPHINX := $(BIN)/python -m sphinx -W --keep-going -q -c docs
TORCH  := $(shell grep -m1 '^torch==' constraints.txt)

.PHONY: demo models test test-matrix test-gpu test-web test-browser test-ray test-kills test-many studio docs catalogues lint types format clean

demo: $(VENV)/.installed          ## train two translators and draw their alignments
	$(BIN)/regard demo $(ARGS)

studio: $(VENV)/.installed-studio          ## every system in the browser, on this machine
	$(BIN)/regard studio $(ARGS)

models: $(VENV)/.installed          ## train and pack the models that ship; a GPU and REGARD_DATA are needed for some
	$(BIN)/python tools/train_shipped.py $(or $(ARGS),--all)

test: $(VENV)/.installed-dev lint          ## lint, all tests, types beside them
	@$(BIN)/mypy & types=$$!; OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal; tests=$$?; \
	wait $$types || { echo "mypy failed: its report stands above those of the tests"; exit 1; }; exit $$tests

test-matrix: $(VENV)/.installed-dev          ## all tests ten times: other seeds, instruction sets, threads, orders
	$(BIN)/python tests/matrix.py $(ARGS)

test-many: $(VENV)/.installed-dev          ## two machines on this one: killed launchers, killed machines, killed preparing
	OMP_NUM_THREADS=1 $(BIN)/pytest -m many tests

docs: $(VENV)/.installed-dev          ## the documentation, into site/ (English) and site/zh/ (Chinese), tested
	rm -rf site
	$(BIN)/python docs/generate.py build/docs/source
	$(SPHINX) -b gettext -d build/docs/doctrees/messages build/docs/source build/docs/messages
	@$(SPHINX) -D language=zh_CN -d build/docs/doctrees/zh build/docs/source site/zh & chinese=$$!; \
	$(SPHINX) -d build/docs/doctrees/en build/docs/source site; english=$$?; wait $$chinese && exit $$english
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -m documentation

catalogues: $(VENV)/.installed-docs          ## the messages of all pages into docs/locale, for translators
	$(BIN)/python docs/generate.py build/docs/source
	$(SPHINX) -b gettext -d build/docs/doctrees/messages build/docs/source build/docs/messages
	$(BIN)/python docs/generator/catalogues.py build/docs/messages

test-gpu: $(VENV)/.installed-dev          ## the tests that need an accelerator
	OMP_NUM_THREADS=1 $(BIN)/pytest -m gpu -n 4 --dist worksteal

test-web: node_modules/.installed          ## types, style and unit tests of the scripts in regard/web; needs node alone
	npm run --silent types
	npm run --silent lint
	npm run --silent test

test-browser: $(VENV)/.installed-browser node_modules/.installed          ## views and studio in Chromium, as a person would use them
	@test -n "$$REGARD_CHROMIUM" || command -v chromium >/dev/null || \
	{ test "$$(id -u)" = 0 && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; } || \
	{ echo "There is no chromium. On Debian: sudo apt-get install chromium; elsewhere set REGARD_CHROMIUM to its path."; exit 1; }
	OMP_NUM_THREADS=1 $(BIN)/pytest -m browser tests/web tests/browser

test-ray: $(VENV)/.installed-ray          ## translation under a real Ray of two workers, one of them killed
	OMP_NUM_THREADS=1 $(BIN)/pytest -m ray tests/integrations

test-kills: $(VENV)/.installed          ## 100,000 lines translated while processes are killed; ARGS="--lines 1000000" for more
	$(BIN)/python benchmarks/translate.py --kills 10 $(ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) node_modules site build/docs demo .pytest_cache .mypy_cache .ruff_cache .hypothesis

# torch goes first, at its pin: a CPU build that pip can find is then kept, and nothing asks for another
$(VENV)/.torch: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install "$(TORCH)"
	touch $@

$(VENV)/.installed: $(VENV)/.torch pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e ".[train]"
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e ".[dev,docs]"
	touch $@

$(VENV)/.installed-studio: $(VENV)/.installed pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e ".[studio]"
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e ".[docs]"
	touch $@

$(VENV)/.installed-browser: $(VENV)/.installed-dev pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e ".[dev,browser]"
	touch $@

$(VENV)/.installed-ray: $(VENV)/.installed-dev pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e ".[dev,ray]"
	touch $@

node_modules/.installed: package.json
	npm install --no-audit --no-fund --silent
	touch $@
