#!/usr/bin/env bash
# Writes requirements.lock anew: the newest versions that pyproject.toml allows, with every extra.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

"${PYTHON:-python3}" - >"$work/wanted.txt" <<'PY'
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
extras = project["optional-dependencies"].values()
needs = project["dependencies"] + [need for extra in extras for need in extra]
print("\n".join(need for need in needs if not need.startswith("laneshift[")))
PY
"${PYTHON:-python3}" -m venv "$work/venv"
scripts/quiet.sh build/logs/lock.log "Resolving the Python packages" \
  "$work/venv/bin/python" -m pip install --disable-pip-version-check -r "$work/wanted.txt"
{
  echo "# Every Python package that building, testing and the demos use. Renew with: make lock"
  "$work/venv/bin/python" -m pip freeze --all | grep -v '^pip=='
} >"$work/requirements.lock"
mv "$work/requirements.lock" requirements.lock
