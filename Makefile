PYTHON ?= python3
export PATH := $(CURDIR)/.venv/bin:$(PATH)

FAULTS := $(wildcard tests/e2e/test_lifecycle.py tests/e2e/test_recovery.py tests/e2e/test_start*.py tests/e2e/test_storm.py)

HANDLERS := $(basename $(notdir $(wildcard lambdas/handlers/[a-z]*.py)))

FROM ?= 0
SEEDS ?= 1000
RUNS ?= 100000
SEED_SECONDS := 240

.PHONY: setup demo test test-sagas test-seeds test-stack test-rest test-e2e test-faults check lint format synth lock clean
.PHONY: simulate exhaust planted needed fuzz mutants

setup: .venv/.ready  ## everything the other targets need, into .venv and node_modules

.venv/.ready: requirements.txt pyproject.toml package-lock.json
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	.venv/bin/npm ci --no-progress --loglevel=error
	touch $@

.venv/.long: setup requirements-long.txt
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-long.txt
	touch $@

demo: setup  ## deploy the app to the embedded AWS and settle the examples
	.venv/bin/settle demo

test: setup  ## the whole suite, for two cores: four parts that work, and two end to end, which wait more than they work
	$(MAKE) -j6 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) test-sagas test-seeds test-stack test-rest test-e2e test-faults

test-sagas: setup
	.venv/bin/pytest tests/handlers tests/simulation

test-seeds: setup
	.venv/bin/python -m tests.simulation.seeded --seconds $(SEED_SECONDS)

test-stack: setup
	.venv/bin/pytest tests/infra tests/statemachines

test-rest: setup
	.venv/bin/pytest $(foreach part,e2e handlers infra simulation statemachines,--ignore=tests/$(part))

test-e2e: setup
	.venv/bin/pytest tests/e2e $(FAULTS:%=--ignore=%)

test-faults: setup
	.venv/bin/pytest $(FAULTS)

simulate: setup  ## SEEDS seeds of the simulator, from the one called FROM; TELL=--tell prints that one's history
	.venv/bin/python -m tests.simulation.seeded --jobs 2 --from $(FROM) --seeds $(SEEDS) $(TELL)

exhaust: setup  ## each fault, and each two, at each call of each scenario
	.venv/bin/python -m tests.simulation.seeded.exhaust --jobs 2

planted: setup  ## look for the seeds that find each planted bug
	.venv/bin/python -m tests.simulation.seeded.planted

needed: setup  ## each call at each moment of each life, and what each condition of each write is needed for
	.venv/bin/python -m tests.simulation.seeded.needed

fuzz: .venv/.long  ## RUNS inputs for each function, guided by coverage
	for handler in $(HANDLERS); do .venv/bin/python -m tests.fuzz.long --handler $$handler --runs $(RUNS) || exit 1; done

mutants: .venv/.long  ## mutants of the pure core, and the unit tests that kill them
	ln -sfn lambdas src  # mutmut wants the sources under this name
	.venv/bin/mutmut run --max-children 2
	.venv/bin/mutmut results

check: lint test synth  ## all that CI runs

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	node_modules/.bin/asl-validator --json-path statemachines/*.asl.json

format: setup
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

synth: setup  ## synthesise every stage; offline
	for stage in local dev prod; do node_modules/.bin/cdk synth --quiet --no-notices -c stage=$$stage -c kyc_url=https://kyc.example.com || exit 1; done

lock: setup  ## pin what requirements.in asks for
	.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes requirements.in -o requirements.txt
	.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes requirements-long.in -o requirements-long.txt
	.venv/bin/npm install --package-lock-only

clean:  ## stop the embedded AWS and remove what was built
	-.venv/bin/settle local down
	rm -rf .venv node_modules cdk.out .settle mutants src
