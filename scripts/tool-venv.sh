#!/usr/bin/env bash
# tool-venv.sh NAME: makes build/tools/NAME hold what requirements-NAME.lock lists, apart from .venv: what documents and
# releases laneshift need not fit together with what runs it.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
name="$1"
venv="build/tools/$name"
wanted="$(cksum <"requirements-$name.lock")"

if [ "$(cat "$venv/.laneshift-stamp" 2>/dev/null)" = "$wanted" ]; then
  exit 0
fi
"${PYTHON:-python3}" -m venv --clear "$venv"
scripts/quiet.sh "build/logs/setup-$name.log" "Installing the packages of make $name into $venv" \
  "$venv/bin/python" -m pip install --disable-pip-version-check -r "requirements-$name.lock"
echo "$wanted" >"$venv/.laneshift-stamp"
