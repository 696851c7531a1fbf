# Two commands do everything, each making its own virtual environment first: `make demo` and `make test`.
# torch is installed first and pinned to its CPU build, so that no dependency pulls in gigabytes of CUDA.
PYTHON ?= python3
TORCH := 2.13.0
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint clean

demo: $(VENV)/.demo
	$(BIN)/interp --version

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/.torch:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet torch==$(TORCH)+cpu || \
	  $(BIN)/python -m pip install --quiet torch==$(TORCH)+cpu --index-url https://download.pytorch.org/whl/cpu
	touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --editable '.[dev,notebooks]'
	touch $@

clean:
	rm -rf $(VENV) out build dist
