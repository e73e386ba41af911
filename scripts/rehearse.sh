#!/usr/bin/env bash
# Runs .ci/run in a fresh clone of HEAD, as a forge would, with ../shared beside it if there is one here; `make rehearse` calls it.
# When all is green, the commit's full id is in build/rehearsed. The clone goes away then, and stays for a look when it was red.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
[ -z "$(git status --porcelain)" ] || {
  echo "There are changes that are not committed, and a rehearsal is of a commit: commit or stash them first." >&2
  exit 1
}
commit="$(git rev-parse HEAD)"
mkdir -p build/logs
rm -f build/rehearsed
place="$(mktemp -d "${TMPDIR:-/tmp}/laneshift-rehearsal.XXXXXX")"
git clone --quiet --no-hardlinks . "$place/main"
git -C "$place/main" checkout --quiet --detach "$commit"
[ ! -d ../shared ] || cp -r ../shared "$place/shared"
echo "Rehearsing $commit in $place/main"
since=$SECONDS
status=0
# What a shell of this checkout has set must not help the clone.
(cd "$place/main" && env -u VIRTUAL_ENV -u PYTHONPATH -u PYSPARK_PYTHON -u PYSPARK_DRIVER_PYTHON -u SPARK_HOME -u MAKEFLAGS -u MAKELEVEL \
  CI=true bash .ci/run </dev/null) || status=$?
took=$((SECONDS - since))
for report in "$place/main/build/logs"/*.log; do
  [ ! -e "$report" ] || cp "$report" "build/logs/rehearsal-$(basename "$report")"
done
printf 'Took %d min %d s in all.\n' $((took / 60)) $((took % 60))
[ "$status" -eq 0 ] || {
  echo "Red, with exit code $status. The clone is left in $place/main." >&2
  exit "$status"
}
[ ! -f "$place/main/build/minutes.txt" ] || cp "$place/main/build/minutes.txt" build/minutes.txt
chmod -R u+w "$place" && rm -rf "$place"
echo "$commit" >build/rehearsed
echo "Green: build/rehearsed names $commit."
