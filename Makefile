# Two commands do everything, each making its own virtual environment first: `make demo` and `make test`.
# torch is installed first and pinned to its CPU build, so that no dependency pulls in gigabytes of CUDA.
PYTHON ?= python3
TORCH := 2.13.0
VENV := .venv
BIN := $(VENV)/bin
ZOO := models/zoo/checkpoints
RC := $(ZOO)/bos+sftm-d45-p2.safetensors
IC := $(ZOO)/lin+sftm-d64-p64.safetensors

.PHONY: demo test quick lint notebooks clean

demo: $(VENV)/.demo
	$(BIN)/interp classify $(ZOO)
	$(BIN)/interp report --several $(RC) $(IC) -o out/report.html
	$(BIN)/interp figures $(RC) -o out/RC --format html >/dev/null
	$(BIN)/interp figures $(IC) -o out/IC --format html >/dev/null
	@echo
	@echo "Open out/report.html: one model that counts by relation beside one that keeps an inventory, both alive."
	@echo "Their figures and numbers are in out/RC and out/IC."

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest -n 2

# The fast part: without what starts browsers, processes or notebooks, compiles kernels or trains.
quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -m "not slow" tests/models tests/probes --ignore tests/models/training

notebooks: $(VENV)/.dev
	$(BIN)/jupyter lab notebooks

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
