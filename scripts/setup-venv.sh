#!/usr/bin/env bash
# Makes an environment (.venv) hold what requirements.lock lists, and what is in this source tree.
# setup-venv.sh STAMP: the environment is the folder of STAMP, which is written last, so that an interrupted run is taken up
# again; a second run at a time waits.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
stamp="$1"
venv="$(dirname "$stamp")"
mkdir -p build/logs

if command -v flock >/dev/null; then
  exec 9>build/setup.lock
  flock 9
fi

wanted="$(cat requirements.lock pyproject.toml */pyproject.toml | cksum)"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && [ -x "$venv/bin/python" ]; then
  touch "$stamp" # only the files' dates changed, or another run did it while this one waited
  exit 0
fi
rm -f "$stamp"

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  "${PYTHON:-python3}" -m venv --clear "$venv"
fi
scripts/quiet.sh build/logs/setup.log "Installing Python packages into $venv, Spark among them: a few minutes the first time" \
  "$venv/bin/python" -m pip install --disable-pip-version-check -r requirements.lock
scripts/quiet.sh build/logs/setup-laneshift.log "Installing laneshift, its lab and its demo into $venv from this source tree" \
  "$venv/bin/python" -m pip install --disable-pip-version-check --no-deps --no-build-isolation -e . -e lab -e demo
echo "$wanted" >"$stamp"
