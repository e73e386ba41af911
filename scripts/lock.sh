#!/usr/bin/env bash
# Writes the lock files anew: the newest versions that the pyproject.toml files allow. requirements.lock has every extra,
# requirements-NAME.lock what the dependency group NAME asks for.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

"${PYTHON:-python3}" - "$work" <<'PY'
import sys
import tomllib
from pathlib import Path

work = Path(sys.argv[1])
with open("pyproject.toml", "rb") as file:
    data = tomllib.load(file)
needs = []
for path in (Path("pyproject.toml"), *Path().glob("*/pyproject.toml")):
    project = tomllib.loads(path.read_text("utf-8"))["project"]
    needs += project["dependencies"]
    needs += [n for extra in project.get("optional-dependencies", {}).values() for n in extra]
needs = [need for need in needs if not need.startswith("laneshift")]
(work / "requirements.lock").write_text("\n".join(needs))
for name, group in data["dependency-groups"].items():
    (work / f"requirements-{name}.lock").write_text("\n".join(group))
PY

# lock FILE WHAT [--all]: makes FILE of the requirements that stand in it, setuptools included if they ask for it (--all).
lock() {
  "${PYTHON:-python3}" -m venv --clear "$work/venv"
  scripts/quiet.sh "build/logs/lock.log" "Resolving $1" \
    "$work/venv/bin/python" -m pip install --disable-pip-version-check -r "$work/$1"
  {
    echo "# $2 Renew with: make lock"
    "$work/venv/bin/python" -m pip freeze ${3:-} | grep -v '^pip=='
  } >"$work/done"
  mv "$work/done" "$1"
}

lock requirements.lock "Every Python package that building, testing and the demos use." --all
for file in "$work"/requirements-*.lock; do
  name="$(basename "$file" .lock)"
  lock "$name.lock" "Every Python package that make ${name#requirements-} uses."
done
