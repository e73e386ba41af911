#!/usr/bin/env bash
# The gate, step by step: `make test` calls it. Goes on after a red step, so that one run tells all; says the seconds of each and,
# last of all, what was red. Nothing here asks how long anything took.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p build/logs
: >build/minutes.txt
: >build/red.txt
# What runs beside ends with this.
trap 'trap - INT TERM HUP; kill -TERM 0' INT TERM HUP

step() {
  local name="$1" since=$SECONDS
  shift
  "$@" || echo "$name" >>build/red.txt
  printf '%-12s %3d s\n' "$name" $((SECONDS - since)) | tee -a build/minutes.txt
}

# Two ways at once, a core for each: no test's verdict hangs on the load. Python's tests need the jar, the JVM's do not.
{
  step docs make docs
  step lint make lint-python
  step test-jvm scripts/quiet.sh build/logs/gate-test-jvm.log "Running the JVM's tests" make test-jvm ONLY= DEEP= FORMAT=1
} &
step jar make jar
step test-python make test-python ARGS=-q DEEP=
wait
grep -hE 'Tests: succeeded [0-9]+' build/logs/test-jvm.log | sed 's/\x1b\[[0-9;]*m//g'
tail -n 1 build/logs/test-python.log
cat build/minutes.txt
if [ -s build/red.txt ]; then
  echo "Red: $(paste -sd' ' build/red.txt). build/logs has what each step said."
  exit 1
fi
echo "The gate is green."
