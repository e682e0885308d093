PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The real lm-evaluation-harness has an environment of its own: 1.1 GB that nothing else needs.
ORACLE ?= .oracle
ORACLE_EXAMPLES ?= 60
# Two processes more than cores: many tests wait for servers and for programs that they start.
TEST_PROCESSES ?= $(shell $(PYTHON) -c "import os; print(len(os.sched_getaffinity(0)) + 2 if hasattr(os, 'sched_getaffinity') else os.cpu_count())")
# So has each memory that is a package of others: mem0, langmem and graphiti bring 30 to 50 packages each.
SYSTEMS := mem0 langmem graphiti
# And torch with transformers, 1.9 GB.
HF ?= .hf
# An environment without extras, as `pip install .` makes it.
INSTALL ?= .install
# Empty for root, who needs no sudo.
SUDO ?= $(if $(filter 0,$(shell id -u)),,sudo)
# Labelled conversations that the judge offline was not made with.
ASSAY_HELD_OUT ?= locomo_exp_user_5,locomo_exp_user_6,locomo_exp_user_7,locomo_exp_user_8,locomo_exp_user_9

# Tests start hundreds of processes. Without bytecode on disk each one compiles every module again: 1.7 s instead of 0.4 s.
unexport PYTHONDONTWRITEBYTECODE

ifndef FUZZ_SEED
FUZZ_SEED := $(shell date +%s)
endif
FUZZ_EXAMPLES ?= 2500

.PHONY: quickstart fuzz quick test test-ray soak test-long test-install bench oracle simulate bench-lm-eval bench-peers prove-hop prove-damage kills demo-memory lab locomo locomo-table judges $(SYSTEMS:%=test-%) test-hf calibrate-offline labels browser screenshots pictures clean

# Everything a newcomer needs: environment, embedded model, a first run.
quickstart: $(VENV)/.local
	$(BIN)/assay models pull smollm2
	$(BIN)/assay task examples/task/quickstart.yaml --model local/smollm2

# Tests without processes and servers, for the minute between two edits. tests/lanes.toml says which they are.
quick: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest --lane quick -n auto --dist worksteal

# Everything that a landing needs.
test: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	@echo "mypy and the tests with Ray beside the other tests: mypy uses one core, and the tests with Ray wait mostly"
	@($(BIN)/mypy && $(BIN)/python -m pytest -o faulthandler_exit_on_timeout=true tests/with_ray) > $(VENV)/beside.log 2>&1 & beside=$$!; \
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal -o faulthandler_exit_on_timeout=true; tests=$$?; \
	wait $$beside; beside=$$?; cat $(VENV)/beside.log; exit $$((tests || beside))

# The executor of Ray on two nodes of this machine: the same files, workers and nodes lost. `make test` runs it too.
# RAY_SUITES=task,hop,pipeline,memory-test,memory-eval,evaluate,calibration kills a worker at every message of all suites.
test-ray: $(VENV)/.dev
	$(BIN)/python -m pytest -o faulthandler_exit_on_timeout=true tests/with_ray

# Proofs that repeat what `make test` shows once: more kills, looks, patterns and texts (tests/lanes.toml has the list with
# reasons), 25 times the examples of every property, and all kills of each kill test. Half an hour on two cores.
test-long: $(VENV)/.dev
	KILLS=10 $(BIN)/python -m pytest --lane long -n $(TEST_PROCESSES) --dist worksteal
	ASSAY_EXAMPLES=500 $(BIN)/python -m pytest -n $(TEST_PROCESSES) tests/core tests/scoring tests/journal tests/suites/pipeline/testset
	KILLS=10 $(BIN)/python -m pytest -n $(TEST_PROCESSES) tests/engine tests/with_system -k 'kill and not in_flight'

# Random files, templates, replies and requests for every reader, sandbox and server. 50 times the examples of `make test`, and
# every time others: FUZZ_EXAMPLES=25000 plays a hundred times as many, FUZZ_SEED plays one run again.
fuzz: $(VENV)/.dev
	@echo "make fuzz FUZZ_SEED=$(FUZZ_SEED) FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) plays the same examples again"
	FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist load \
	  --hypothesis-seed=$(FUZZ_SEED) tests/fuzz

# `pip install .` into a fresh environment, with downloads and without extras; then the tests of an installation.
test-install: $(VENV)/.dev
	rm -rf $(INSTALL)
	$(PYTHON) -m venv $(INSTALL)
	$(INSTALL)/bin/pip install --quiet --disable-pip-version-check .
	ASSAY_INSTALLED=$(abspath $(INSTALL)) $(BIN)/python -m pytest tests/test_install.py

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks --write

# A million samples through Ray on three nodes of this machine, while nodes are lost and added. SOAK_CASES is another number.
soak: $(VENV)/.dev
	$(BIN)/python -m benchmarks.soak --cases $(or $(SOAK_CASES),1000000)

# How often intervals, tests and gates are right on drawn runs whose true value is known; five minutes on two cores.
simulate: $(VENV)/.dev
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.simulate

# The same tasks by assay and by lm-evaluation-harness; a difference is a failure.
oracle: $(ORACLE)/.ready
	ORACLE_EXAMPLES=$(ORACLE_EXAMPLES) $(ORACLE)/bin/python -m pytest tests/oracle

bench-lm-eval: $(ORACLE)/.ready $(VENV)/.dev
	ASSAY_LM_EVAL_PYTHON=$(abspath $(ORACLE)/bin/python) $(BIN)/python -m benchmarks lm-eval

# Five other programs and assay do the same work at the same endpoint; within an hour on two cores. Their environments
# (3.5 GB) are made first, from the package registries; after that nothing leaves the machine.
bench-peers: browser
	$(BIN)/python -m benchmarks.peers --install
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks.peers --tables

# 2,000 rows with three profiles, twenty at once, faults, and two kill -9; CI runs the same over 200 rows.
prove-hop: $(VENV)/.dev
	HOP_ROWS=2000 $(BIN)/python -m pytest tests/engine/test_kill_hop.py -s

# 2,000 damaged run folders of all suites: each is named or healed, and no number changes. CI plays 42.
prove-damage: $(VENV)/.dev
	DAMAGE_SCENARIOS=2000 $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist load -rP tests/engine/test_damage_scenarios.py

# 100 kill -9 over all suites at random, then each suite's own test with all of its kills: only what was in flight is
# asked again, and the results are the same. CI plays ten, and one to three in each suite.
kills: $(VENV)/.dev
	KILLS=100 $(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist load -rP tests/engine/test_kills.py
	KILLS=100 $(BIN)/python -m pytest -n $(TEST_PROCESSES) --lane all tests/engine tests/with_system -k 'kill and not in_flight'

# 10,000 seeded scenarios over all suites: kill -9 at numbered write points, full and read-only disks, clocks that jump,
# two writers, damaged bytes, endpoints that lie. `make chaos SEED=17` plays one seed and tells all that happened.
CHAOS_SCENARIOS ?= 10000
.PHONY: chaos
chaos: $(VENV)/.dev
	PYTHONPATH=tests OPENBLAS_NUM_THREADS=1 $(BIN)/python -m chaos $(or $(SEED),--scenarios $(CHAOS_SCENARIOS))

# 200 scenarios on one Ray cluster: workers and nodes are lost at numbered messages and writes, the driver is killed.
CHAOS_RAY_SCENARIOS ?= 200
.PHONY: chaos-ray
chaos-ray: $(VENV)/.dev
	PYTHONPATH=tests OPENBLAS_NUM_THREADS=1 $(BIN)/python -m chaos --executor ray $(or $(SEED),--scenarios $(CHAOS_RAY_SCENARIOS))

# How a memory answers as a conversation grows, offline; about three minutes on two cores.
demo-memory: $(VENV)/.local
	$(BIN)/assay models pull smollm2
	$(BIN)/assay memory test --data examples/memory/talks.json --task-id 0000 --segments 5 --top-k 4 \
	  --memory bm25 --model local/smollm2

# The laboratory for memories on the invented conversations, offline, ending in results/lab/report.html; within ten
# minutes on two cores.
lab: $(VENV)/.dev
	$(BIN)/assay models pull smollm2
	$(BIN)/python -m benchmarks.lab

# Known sequences on the real LoCoMo, which is not ours to ship: make locomo ASSAY_LOCOMO=path/to/locomo10.json
locomo: $(VENV)/.dev
	$(BIN)/python -m pytest tests/locomo

# The memories that need no strong model, on LoCoMo's 1,540 questions of categories 1 to 4 after the last message: recall, MRR,
# NDCG, latency and size. No model is asked: make locomo-table ASSAY_LOCOMO=path/to/locomo10.json
locomo-table: $(VENV)/.dev
	$(BIN)/assay memory test --data '$(ASSAY_LOCOMO)' --memory bm25,dense,hybrid,FUMemory,STMemory,LTMemory,none,oracle \
	  --ask at-end --categories 1,2,3,4 --no-answer --output-dir results/locomo

# The offline judge against real votes and facts, which are not ours to ship, with every figure:
# make judges ASSAY_LOCOMO=path/to/locomo10.json ASSAY_VOTES=path/to/locomo_answers_with_judge_votes.json
judges: $(VENV)/.dev
	$(BIN)/python -m pytest tests/calibration -s

# What is known of the judge offline and comes with the package. Run it after every change of the judge. The figures on
# the constructed set are always renewed; those on real votes, which are not ours to ship, with
# make calibrate-offline ASSAY_VOTES=path/to/locomo_answers_with_judge_votes.json
CALIBRATE = ASSAY_DATA=results/calibration/data $(BIN)/assay judge calibrate --judge offline --output-dir results/calibration
calibrate-offline: $(VENV)/.dev
	$(CALIBRATE) --labels built-in --save src/assay/scoring/calibrations/offline.json
ifdef ASSAY_VOTES
	$(CALIBRATE) --labels '$(ASSAY_VOTES)' --cluster '$(ASSAY_HELD_OUT)' \
	  --save src/assay/scoring/calibrations/offline-votes.json
endif
	$(BIN)/python -m benchmarks.labelled.figures

# The labels of --labels built-in. After it, run make calibrate-offline.
labels: $(VENV)/.dev
	$(BIN)/python -m benchmarks.labelled

# Debian's Chromium with Chinese fonts, and what drives it: for tests/browser, which are skipped without it.
browser: $(VENV)/.browser

# The pictures of `assay view` for README and docs, of runs of the examples.
screenshots: browser $(VENV)/.local
	$(BIN)/assay models pull smollm2
	$(BIN)/python docs/pictures/screenshots.py

# The pictures of the documentation, drawn by scripts of ours; a test compares them.
pictures:
	$(PYTHON) docs/pictures/request.py

# The contract, kills and sockets of a memory with its real package and a model of ours: make test-mem0, test-langmem,
# test-graphiti. `make test` does the same for the memory http, which needs no package.
$(SYSTEMS:%=test-%): test-%: .%/.ready
	ASSAY_SYSTEM=$* KILLS=10 .$*/bin/python -m pytest tests/with_system

# The provider hf with real models, next to lm-evaluation-harness's `--model hf`.
test-hf: $(HF)/.ready
	$(HF)/bin/python -m pytest tests/with_hf

$(VENV)/.browser: $(VENV)/.dev
	command -v chromium && ls /usr/share/fonts/opentype/noto/NotoSansCJK* || \
	  ($(SUDO) apt-get update -qq && $(SUDO) apt-get install -qq --no-install-recommends chromium fonts-noto-cjk)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -e '.[browser]'
	touch $@

$(SYSTEMS:%=.%/.ready): .%/.ready: pyproject.toml
	$(PYTHON) -m venv .$*
	.$*/bin/pip install --quiet --disable-pip-version-check -e '.[test-$*]'
	touch $@

# torch first and by its exact version: lm_eval's own range would take the newest, with several GB of CUDA.
$(HF)/.ready: pyproject.toml
	$(PYTHON) -m venv $(HF)
	$(HF)/bin/pip install --quiet --disable-pip-version-check 'torch==2.13.0'
	$(HF)/bin/pip install --quiet --disable-pip-version-check -e '.[test-hf]'
	touch $@

$(ORACLE)/.ready: pyproject.toml
	$(PYTHON) -m venv $(ORACLE)
	$(ORACLE)/bin/pip install --quiet --disable-pip-version-check -e '.[oracle]'
	touch $@

$(VENV)/.local: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[local,fast,memory]'
	touch $@

$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) $(ORACLE) $(SYSTEMS:%=.%) $(HF) $(INSTALL) .peers results bench-out
