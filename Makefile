# laneshift's build. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV_PYTHON := $(CURDIR)/.venv/bin/python
export PYTHON
# Spark's Python workers must be the venv's, or they miss pandas and pyarrow.
export PYSPARK_PYTHON := $(VENV_PYTHON)
export PYSPARK_DRIVER_PYTHON := $(VENV_PYTHON)

VENV_STAMP := .venv/.laneshift-stamp
SCALAFMT_STAMP := build/stamps/scalafmt
JAR := python/laneshift/jars/laneshift-spark.jar
CLASSES := build/classes.jsa

# Folders count, too: their dates change when a file goes away.
# The control service's protocol is a resource of the jar.
BUILD_FILES := build.sbt $(wildcard project/*.sbt project/*.scala project/build.properties) python/laneshift/control/v1/control.proto
JAR_SOURCES := $(shell find jvm -name target -prune -o -path '*/src/main*' ! -name '.*' -print)
SCALA_SOURCES := $(shell find jvm -name target -prune -o -name '*.scala' -print)

# What git knows or would take: a change of any of it may change what tests find.
INPUTS := $(wildcard $(shell git ls-files --cached --others --exclude-standard 2>/dev/null))
JVM_PASSED := build/stamps/jvm-tests-passed
PYTHON_PASSED := build/stamps/python-tests-passed

# The version of both languages: writes python/laneshift/_version.py and prints it, for sbt.
VERSION := $(VENV_PYTHON) -m setuptools_scm --force-write-version-files

# What to pass on, e.g. make test-jvm ONLY='*IdsSuite', make test-python ARGS='-k version', make demo ARGS=--help
ONLY ?=
ARGS ?=

.PHONY: help check-tools setup lock jar test quick quick-jvm quick-python test-jvm test-python test-all itest kills host-kills rescale-kills leaks compatibility matrix versions proto prove mutants lint fmt wheel release docs demo demo-kafka bench results endurance experiments clean

help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1|\2/p' Makefile | while IFS='|' read -r target text; do printf '%-12s %s\n' "$$target" "$$text"; done

check-tools: ## Check for Java, Python and Maven or sbt
	@scripts/check-tools.sh

setup: $(VENV_STAMP) | check-tools ## Make .venv with the locked Python packages, Spark among them
	@:

$(VENV_STAMP): requirements.lock pyproject.toml | check-tools
	@scripts/setup-venv.sh $@

lock: | check-tools ## Renew requirements.lock with the newest versions that pyproject.toml allows
	@scripts/lock.sh

jar: $(JAR) | check-tools ## Build the plugin's jar into the Python package
	@:

$(JAR): $(JAR_SOURCES) $(BUILD_FILES) $(VENV_STAMP) | check-tools
	@version=$$($(VERSION)) && LANESHIFT_VERSION=$$version \
	  scripts/quiet.sh build/logs/jar.log "Building the plugin's jar, version $$version" scripts/sbt checkJar
	@mkdir -p $(@D) && cp jvm/spark/target/laneshift-spark.jar $@.tmp && mv $@.tmp $@

# Both languages at a time: much of either is waiting. What fails is said at its end, and again in its log.
test: setup jar ## Run the tests if files have changed since they passed, the JVM's and Python's side by side
	@echo "Tests run, three quarters of an hour on two cores: build/logs/test-jvm.log and build/logs/test-python.log say what they do."
	@$(MAKE) --jobs=2 --keep-going --output-sync=target $(JVM_PASSED) $(PYTHON_PASSED)
	@echo "JVM: $$(grep -oE 'Tests: succeeded [0-9]+, failed [0-9]+' build/logs/test-jvm.log)"
	@echo "Python: $$(tail -n 1 build/logs/test-python.log)"
	@echo "All passed on the files as they are; make test-jvm and make test-python run them again."

$(JVM_PASSED): $(filter jvm/% docs/%,$(INPUTS)) $(BUILD_FILES) $(VENV_STAMP) | check-tools
	@$(MAKE) test-jvm ONLY=
	@mkdir -p $(@D) && touch $@

$(PYTHON_PASSED): $(INPUTS) $(JAR) $(VENV_STAMP) | check-tools
	@$(MAKE) test-python ARGS=
	@mkdir -p $(@D) && touch $@

# The explorer's first schedules, one pair for each family of operators, and what needs no Spark in Python.
quick: setup jar ## Run the tests that catch most mistakes, in under five minutes
	@$(MAKE) --jobs=2 --keep-going --output-sync=target quick-jvm quick-python

quick-jvm:
	@scripts/quiet.sh build/logs/quick-jvm.log "Unit tests of the JVM, and one query of each kind beside stock Spark" \
	  scripts/sbt core/test "spark/testOnly -- -n laneshift.Quick"

quick-python:
	@$(VENV_PYTHON) -m pytest python/tests -q -m 'not live and not thorough' $(ARGS)

# What failed is said again at the end, where it is looked for.
test-jvm: setup ## Run the JVM's tests (ONLY='*Suite' for some)
	@mkdir -p build/logs
	@version=$$($(VERSION)) && LANESHIFT_VERSION=$$version \
	  scripts/sbt "testOnly $(or $(ONLY),* -- -l laneshift.Thorough)" </dev/null 2>&1 | tee build/logs/test-jvm.log || \
	  { grep -A3 -F 'FAILED ***' build/logs/test-jvm.log | tail -n 30; exit 1; }

# Tests need no network but their own machine's.
test-python: export SPARK_LOCAL_IP := 127.0.0.1
test-python: setup jar $(CLASSES) ## Run Python's tests (ARGS for pytest)
	@mkdir -p build/logs
	@$(VENV_PYTHON) -m pytest python/tests --durations=40 $(or $(ARGS),-m 'not thorough') 2>&1 | tee build/logs/test-python.log

# Without it the tests are only slower.
$(CLASSES): $(JAR) python/tests/live/archive.py
	@PYTHONPATH=python/tests scripts/quiet.sh build/logs/classes.log "Archiving Spark's classes for short-lived JVMs" \
	  $(VENV_PYTHON) python/tests/live/archive.py $@ || true

test-all: export SPARK_LOCAL_IP := 127.0.0.1
test-all: setup jar ## All tests, the thorough ones too, and drivers, executors and schedulers killed while lanes move (KILLS=20): two hours
	@$(MAKE) test-jvm ONLY='*'
	@$(VENV_PYTHON) scripts/compatibility.py --check
	@$(MAKE) test-python ARGS="-m ''"
	@LANESHIFT_KILLS=$(or $(KILLS),20) $(VENV_PYTHON) -m pytest -s integration_tests/test_driver_kill.py integration_tests/test_executor_kill.py integration_tests/test_scheduler_kill.py integration_tests/test_endurance.py $(ARGS)

itest: setup jar ## Spark clusters in Docker: workers, drivers, network and disks fail, answers stay stock Spark's (ARGS='-m fast' for some)
	@scripts/itest.sh $(ARGS)

kills: setup ## Kill tasks and executors at random under queries that check their own rows (KILLS=1000, SEED=n)
	@export SPARK_HOME=$$($(VENV_PYTHON) -c 'import pyspark; print(pyspark.__path__[0])') SPARK_SCALA_VERSION=2.13; \
	  scripts/sbt "spark/Test/runMain org.apache.spark.sql.laneshift.kills.RandomKills $(or $(KILLS),1000) $(SEED)" </dev/null

host-kills: setup ## Kill executors that run other executors' lanes, under queries that check their own rows (KILLS=100, SEED=n)
	@export SPARK_HOME=$$($(VENV_PYTHON) -c 'import pyspark; print(pyspark.__path__[0])') SPARK_SCALA_VERSION=2.13; \
	  scripts/sbt "spark/Test/runMain org.apache.spark.sql.laneshift.kills.HostKills $(or $(KILLS),100) $(SEED)" </dev/null

rescale-kills: setup ## Kill a query at every step of a rescale's take-over (make test: at some); KILLS=300 (SEED=n): drivers and executors at random
	@$(if $(KILLS),export SPARK_HOME=$$($(VENV_PYTHON) -c 'import pyspark; print(pyspark.__path__[0])') SPARK_SCALA_VERSION=2.13; \
	  scripts/sbt "spark/Test/runMain org.apache.spark.sql.laneshift.kills.RescaleKills $(KILLS) $(SEED)" </dev/null,\
	  LANESHIFT_EVERY=1 scripts/sbt 'spark/testOnly *RescaleKillSuite' </dev/null)

leaks: setup ## Run a query under motion for BATCHES=1000 micro-batches, and look for what it leaves behind
	@LANESHIFT_BATCHES=$(or $(BATCHES),1000) scripts/sbt 'spark/testOnly *FailureSuite -- -z "many batches"' </dev/null

compatibility: setup ## Run the JVM's tests and write docs/compatibility.md from what they found
	@$(MAKE) test-jvm ONLY='*'
	@$(VENV_PYTHON) scripts/compatibility.py

matrix: setup ## Compare every operator, output mode and trigger with stock Spark, and write docs/compatibility-matrix.md (ONLY='part of a name' for some, in build/)
	@LANESHIFT_ONLY='$(ONLY)' scripts/sbt "spark/Test/runMain org.apache.spark.sql.laneshift.CompatibilityMatrix \
	  $(CURDIR)/$(if $(ONLY),build/matrix.md,docs/compatibility-matrix.md)" </dev/null

versions: setup jar ## Run a part of the tests with each Java and Python that is found (JDKS='17 /a/jdk', PYTHONS=3.12, PARTS='jvm alone pairs' for some): a table
	@JDKS='$(JDKS)' PYTHONS='$(PYTHONS)' PARTS='$(PARTS)' $(VENV_PYTHON) scripts/versions.py

proto: setup ## Make the Python code of control.proto anew, after a change of it
	@cd python && $(VENV_PYTHON) -m grpc_tools.protoc -I. --plugin=protoc-gen-mypy=$(CURDIR)/.venv/bin/protoc-gen-mypy \
	  --plugin=protoc-gen-mypy_grpc=$(CURDIR)/.venv/bin/protoc-gen-mypy_grpc --python_out=. --grpc_python_out=. \
	  --mypy_out=. --mypy_grpc_out=. laneshift/control/v1/control.proto

prove: setup ## Explore a million schedules of the handoff protocol, and race it on threads (SEED=n SCHEDULES=1 repeats one; FAULT=name plants a bug)
	@SEED='$(SEED)' SCHEDULES='$(SCHEDULES)' FAULT='$(FAULT)' \
	  scripts/sbt "core/Test/runMain laneshift.lane.explore.ScheduleExplorer" \
	  $(if $(SEED)$(FAULT),,"core/Test/runMain laneshift.lane.InletRace") </dev/null

# One suite with a failing test must not keep the others' results from the table.
mutants: setup ## Plant each known bug in turn: a table of which the tests notice
	@rm -rf jvm/*/target/test-reports
	@scripts/quiet.sh build/logs/mutants.log "Running the tests that plant bugs" \
	  scripts/sbt "testOnly *ScheduleExplorerSuite *DealsScheduleSuite *InletRaceSuite *PlantedBugSuite" || true
	@$(VENV_PYTHON) scripts/mutants.py

lint: setup $(SCALAFMT_STAMP) ## Check format, style and types
	@$(VENV_PYTHON) -m ruff check --quiet .
	@$(VENV_PYTHON) -m ruff format --check --quiet . || { $(VENV_PYTHON) -m ruff format --check .; exit 1; }
	@$(VENV_PYTHON) -m mypy --strict --no-error-summary python/laneshift
	@MYPYPATH=python:benchmarks $(VENV_PYTHON) -m mypy --strict --no-error-summary benchmarks/run.py benchmarks/laneshift_bench/standing.py benchmarks/experiments.py benchmarks/keygroups
	@MYPYPATH=python:python/tests:integration_tests:benchmarks $(VENV_PYTHON) -m mypy --strict --no-error-summary --explicit-package-bases integration_tests

$(SCALAFMT_STAMP): $(SCALA_SOURCES) $(BUILD_FILES) .scalafmt.conf $(VENV_STAMP)
	@scripts/quiet.sh build/logs/scalafmt.log "Checking the format of the Scala code" scripts/sbt scalafmtCheckAll scalafmtSbtCheck
	@mkdir -p $(@D) && touch $@

fmt: setup ## Format all code
	@scripts/quiet.sh build/logs/scalafmt.log "Formatting the Scala code" scripts/sbt scalafmtAll scalafmtSbt
	@$(VENV_PYTHON) -m ruff check --quiet --fix-only .
	@$(VENV_PYTHON) -m ruff format --quiet .

# Always makes the jar anew: the version in it must be the wheel's, which each commit changes.
wheel: setup ## Build the Python wheel, with the jar inside, into dist/
	@rm -f $(JAR) && $(MAKE) jar
	@rm -rf build/lib build/bdist.* dist
	@scripts/quiet.sh build/logs/wheel.log "Building the wheel" $(VENV_PYTHON) -m build --wheel --no-isolation
	@$(VENV_PYTHON) -m zipfile -l dist/laneshift-*.whl | grep -F laneshift/jars/laneshift-spark.jar >/dev/null || { echo "The wheel has no jar inside." >&2; exit 1; }
	@ls dist/laneshift-*.whl

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
	@$(VENV_PYTHON) -m laneshift.demo flights $(ARGS)

demo-kafka: setup jar ## The demo with Kafka as source and sink
	@$(VENV_PYTHON) -m laneshift.demo kafka $(ARGS)

experiments: setup ## Simulate the papers' experiments (ARGS=--list, or names), see benchmarks/papers
	@$(VENV_PYTHON) benchmarks/experiments.py $(or $(ARGS),--list)

bench: setup jar ## Run the benchmarks (ARGS for benchmarks/run.py)
	@$(VENV_PYTHON) benchmarks/run.py $(ARGS)

endurance: setup jar ## Many hours of motion, rescales and kills, every answer checked (HOURS=8, or SECONDS=300 to try it; SEED=n); the same command goes on after an interruption
	@$(VENV_PYTHON) benchmarks/run.py endurance $(if $(SECONDS),--seconds $(SECONDS),--hours $(or $(HOURS),8)) $(if $(SEED),--seed $(SEED)) $(ARGS)

results: setup ## Write docs/results.md from the files in benchmarks/results
	@$(VENV_PYTHON) scripts/results.py

clean: ## Remove all that was built (.venv stays)
	@rm -rf build dist target project/target project/project jvm/*/target python/*.egg-info $(JAR) python/laneshift/_version.py
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
