PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: quickstart test bench clean

# Everything a newcomer needs: environment, embedded model, a first run.
quickstart: $(VENV)/.local
	$(BIN)/assay models pull smollm2
	$(BIN)/assay task examples/task/quickstart.yaml --model local/smollm2

test: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -n auto

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks --write

$(VENV)/.local: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[local,fast]'
	touch $@

$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) results bench-out
