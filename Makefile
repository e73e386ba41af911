# laneshift's build. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

ifneq ($(words $(CURDIR)),1)
$(error laneshift: $(CURDIR) has a blank, which the build cannot take: put the clone elsewhere)
endif
ifeq ($(filter undefine,$(.FEATURES)),)
$(error laneshift: this make is too old to see a failure in a pipe: GNU make 3.82 or newer is needed (macOS: brew install make, then gmake))
endif

PYTHON ?= python3
VENV_PYTHON := $(CURDIR)/.venv/bin/python
export PYTHON
# Spark's Python workers must be the venv's, or they miss pandas and pyarrow.
export PYSPARK_PYTHON := $(VENV_PYTHON)
export PYSPARK_DRIVER_PYTHON := $(VENV_PYTHON)

VENV_STAMP := .venv/.laneshift-stamp
SCALAFMT := scalafmtCheckAll scalafmtSbtCheck
SCALAFMT_STAMP := build/stamps/scalafmt
JAR := python/laneshift/jars/laneshift-spark.jar
WORKLOAD := lab/laneshift_lab/jars/laneshift-workload.jar
CLASSES := build/classes.jsa

# Folders count, too: their dates change when a file goes away.
BUILD_FILES := build.sbt $(wildcard project/*.sbt project/*.scala project/build.properties) python/laneshift/plugin/v1/control.proto
JAR_SOURCES := $(shell find jvm -name target -prune -o -path '*/src/main*' ! -name '.*' -print)
SCALA_SOURCES := $(shell find jvm -name target -prune -o -name '*.scala' -print)

# The version of both languages: writes python/laneshift/_version.py and prints it, for sbt.
VERSION := $(VENV_PYTHON) -m setuptools_scm --force-write-version-files

# What to pass on, e.g. make test-jvm ONLY='*IdsSuite', make test-python ARGS='-k version', make demo ARGS=--help
ONLY ?=
ARGS ?=
# Without it the gate's tests, with a room of the deep tier those.
DEEP ?=
# 1: the sbt of the JVM's tests looks at the format of the Scala code behind them; another one would take half a minute to start.
FORMAT ?=
# renew: what the tests cost that run becomes what they may cost, see jvm/budgets.txt and python/tests/budgets.txt.
BUDGETS ?=

.PHONY: help check-tools setup lock jar test test-jvm test-python deep rehearse compatibility versions proto prove lint lint-python fmt wheel release docs demo demo-kafka bench results endurance experiments clean

help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1|\2/p' Makefile | while IFS='|' read -r target text; do printf '%-12s %s\n' "$$target" "$$text"; done

# Says what is missing of Java, Python and Maven or sbt, and how to get it.
check-tools:
	@scripts/check-tools.sh

setup: $(VENV_STAMP) | check-tools ## Make .venv with the locked Python packages, Spark among them
	@:

$(VENV_STAMP): requirements.lock pyproject.toml lab/pyproject.toml demo/pyproject.toml | check-tools
	@scripts/setup-venv.sh $@

lock: | check-tools ## Renew requirements.lock with the newest versions that pyproject.toml allows
	@scripts/lock.sh

jar: $(JAR) $(WORKLOAD) | check-tools ## Build the plugin's jar into the Python package, and the workload's into the lab's
	@:

$(JAR): $(JAR_SOURCES) $(BUILD_FILES) $(VENV_STAMP) | check-tools
	@version=$$($(VERSION)) && LANESHIFT_VERSION=$$version \
	  scripts/quiet.sh build/logs/jar.log "Building the plugin's jar, version $$version" scripts/sbt checkJar workload/assembly
	@mkdir -p $(@D) $(dir $(WORKLOAD)) && cp jvm/workload/target/laneshift-workload.jar $(WORKLOAD)
	@cp jvm/spark/target/laneshift-spark.jar $@.tmp && mv $@.tmp $@

$(WORKLOAD): $(JAR)
	@test -f $@ || { rm -f $(JAR) && $(MAKE) $(JAR); }

test: setup ## The gate: format, types, links, and the tests of both languages whose verdict is a function of the commit; a quarter of an hour
	@scripts/gate.sh

# What failed is said again at the end, where it is looked for.
test-jvm: setup ## The JVM's tests of the gate (ONLY='*Suite' for some; DEEP=pairs: those of a room of the deep tier)
	@mkdir -p build/logs
	@version=$$($(VENV_PYTHON) -m setuptools_scm) && LANESHIFT_VERSION=$$version LANESHIFT_DEEP='$(DEEP)' LANESHIFT_BUDGETS='$(BUDGETS)' \
	  scripts/sbt "testOnly $(or $(ONLY),*)" $(if $(FORMAT),$(SCALAFMT)) </dev/null 2>&1 | tee build/logs/test-jvm.log || \
	  { grep -A3 -E '(FAILED|ABORTED) \*\*\*' build/logs/test-jvm.log | tail -n 30; exit 1; }

# Tests need no network but their own machine's.
test-python: export SPARK_LOCAL_IP := 127.0.0.1
test-python: setup jar $(CLASSES) ## Python's tests of the gate (ARGS for pytest; DEEP=policies: those of a room of the deep tier)
	@mkdir -p build/logs
	@LANESHIFT_BUDGETS='$(BUDGETS)' $(VENV_PYTHON) -m pytest --durations=40 --junitxml=build/logs/test-python.xml $(if $(DEEP),--deep=$(DEEP)) $(ARGS) 2>&1 | tee build/logs/test-python.log

# Without it the tests are only slower.
$(CLASSES): $(JAR) python/tests/live/archive.py
	@PYTHONPATH=python/tests scripts/quiet.sh build/logs/classes.log "Archiving Spark's classes for short-lived JVMs" \
	  $(VENV_PYTHON) python/tests/live/archive.py $@ || true

# ROOMS without a value: all of them. ONLY='Rescale*' for some units, LIST=1 says which there are, TIMES=20 repeats each, every time with another seed,
# KILLS=300 and SECONDS=3600 are for kills and endurance. It builds what it needs once it knows what to run.
deep: setup ## The deep tier: searches for races, kills, runs whole clusters, on record (ROOMS=kills,pairs MINUTES=60 SEED=n ONLY=name LIST=1)
	@$(VENV_PYTHON) scripts/deep.py $(foreach word,ROOMS MINUTES SEED ONLY TIMES KILLS SECONDS LIST,$(if $($(word)),'$(word)=$($(word))'))

rehearse: ## Run .ci/run in a fresh clone of HEAD or COMMIT; when green, build/rehearsed names it (HOW='quiet busy stops clock': one run each)
	@$(PYTHON) scripts/rehearse.py $(if $(COMMIT),--commit $(COMMIT)) $(HOW)

compatibility: setup ## Run all of the JVM's tests, of both tiers, and write what they found into docs/tested.md: an hour
	@$(MAKE) test-jvm DEEP=all
	@$(VENV_PYTHON) scripts/compatibility.py

versions: setup jar ## Run a part of the tests with each Java and Python that is found (JDKS='17 /a/jdk', PYTHONS=3.12, PARTS='jvm alone pairs' for some): a table
	@JDKS='$(JDKS)' PYTHONS='$(PYTHONS)' PARTS='$(PARTS)' $(VENV_PYTHON) scripts/versions.py

proto: setup ## Make the Python code of control.proto anew, after a change of it
	@cd python && $(VENV_PYTHON) -m grpc_tools.protoc -I. --plugin=protoc-gen-mypy=$(CURDIR)/.venv/bin/protoc-gen-mypy \
	  --python_out=. --mypy_out=. laneshift/plugin/v1/control.proto

prove: setup ## Explore a million schedules of the handoff protocol, and race it on threads (SEED=n SCHEDULES=1 repeats one)
	@SEED='$(SEED)' SCHEDULES='$(SCHEDULES)' \
	  scripts/sbt "core/Test/runMain laneshift.lane.explore.ScheduleExplorer" \
	  $(if $(SEED),,"core/Test/runMain laneshift.lane.InletRace") </dev/null

lint: lint-python ## Check format, style and types
	@$(MAKE) $(SCALAFMT_STAMP)

lint-python: setup
	@$(VENV_PYTHON) -m ruff check --quiet .
	@$(VENV_PYTHON) -m ruff format --check --quiet . || { $(VENV_PYTHON) -m ruff format --check .; exit 1; }
	@$(VENV_PYTHON) -m mypy --strict --no-error-summary python/laneshift lab/laneshift_lab demo/laneshift_demo
	@MYPYPATH=python:lab:demo:benchmarks $(VENV_PYTHON) -m mypy --strict --no-error-summary benchmarks/run.py benchmarks/laneshift_bench/standing.py benchmarks/experiments.py benchmarks/keygroups
	@MYPYPATH=python:lab:demo:python/tests:integration_tests:benchmarks $(VENV_PYTHON) -m mypy --strict --no-error-summary --explicit-package-bases integration_tests

$(SCALAFMT_STAMP): $(SCALA_SOURCES) $(BUILD_FILES) .scalafmt.conf $(VENV_STAMP)
	@scripts/quiet.sh build/logs/scalafmt.log "Checking the format of the Scala code" scripts/sbt $(SCALAFMT)
	@mkdir -p $(@D) && touch $@

fmt: setup ## Format all code
	@scripts/quiet.sh build/logs/scalafmt.log "Formatting the Scala code" scripts/sbt scalafmtAll scalafmtSbt
	@$(VENV_PYTHON) -m ruff check --quiet --fix-only .
	@$(VENV_PYTHON) -m ruff format --quiet .

# Always makes the jar anew: the version in it must be the wheel's, which each commit changes.
wheel: setup ## Build the Python wheel, with the jar inside, and the lab's into dist/
	@rm -f $(JAR) && $(MAKE) jar
	@rm -rf build/lib build/bdist.* lab/build dist
	@scripts/quiet.sh build/logs/wheel.log "Building the wheel" $(VENV_PYTHON) -m build --wheel --no-isolation
	@scripts/quiet.sh build/logs/wheel-lab.log "Building the lab's" $(VENV_PYTHON) -m build --wheel --no-isolation --outdir dist lab
	@for jar in laneshift/jars/laneshift-spark.jar laneshift_lab/jars/laneshift-workload.jar; do \
	  $(VENV_PYTHON) -m zipfile -l dist/$${jar%%/*}-*.whl | grep -F $$jar >/dev/null || { echo "The wheel of $${jar%%/*} has no jar inside." >&2; exit 1; }; done
	@ls dist/*.whl

release: setup ## Build all that a release publishes into dist/: wheel, sdist, Maven repository, SBOM, checksums; the same bytes anywhere
	@scripts/tool-venv.sh release
	@scripts/release.sh

# NO_MKDOCS_2_WARNING: the theme's authors advertise its successor, which reads mkdocs.yml, too.
docs: ## Build the documentation as a site into build/site; a link that leads nowhere is an error
	@scripts/tool-venv.sh docs
	@$(PYTHON) scripts/site_pages.py
	@NO_MKDOCS_2_WARNING=1 scripts/quiet.sh build/logs/docs.log "Building the site" build/tools/docs/bin/python -m mkdocs build --strict
	@echo "build/site/index.html"

demo: setup jar ## Show an elastic query beside a stock one (ARGS for the demo)
	@$(VENV_PYTHON) -m laneshift_demo flights $(ARGS)

demo-kafka: setup jar ## The demo with Kafka as source and sink
	@$(VENV_PYTHON) -m laneshift_demo kafka $(ARGS)

experiments: setup ## Simulate the papers' experiments (ARGS=--list, or names), see benchmarks/papers
	@$(VENV_PYTHON) benchmarks/experiments.py $(or $(ARGS),--list)

bench: setup jar ## Run the benchmarks (ARGS for benchmarks/run.py)
	@$(VENV_PYTHON) benchmarks/run.py $(ARGS)

endurance: setup jar ## Many hours of motion, rescales and kills, every answer checked (HOURS=8, or SECONDS=300 to try it; SEED=n); the same command goes on after an interruption
	@$(VENV_PYTHON) benchmarks/run.py endurance $(if $(SECONDS),--seconds $(SECONDS),--hours $(or $(HOURS),8)) $(if $(SEED),--seed $(SEED)) $(ARGS)

results: setup ## Write docs/results.md from the files in benchmarks/results
	@$(VENV_PYTHON) scripts/results.py

clean: ## Remove all that was built (.venv stays)
	@rm -rf build dist lab/build target project/target project/project jvm/*/target */*.egg-info $(JAR) $(WORKLOAD) python/laneshift/_version.py
	@rm -rf spark-warehouse artifacts
	@git worktree prune
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
