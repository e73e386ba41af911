#!/usr/bin/env bash
# release.sh: everything that a release publishes, into dist/, from a clean clone of the commit that is checked out, so that
# nothing else gets in. The same commit gives the same bytes in any folder, with the same JDK and lock files.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
python="$root/.venv/bin/python"
tools="$root/build/tools/release/bin/python"
source="$root/build/release/source"

if [ -n "$(git status --porcelain)" ]; then
  echo "make release builds what is committed, and there are changes that are not: commit or stash them (git status lists them)." >&2
  exit 1
fi

export SOURCE_DATE_EPOCH LANESHIFT_VERSION LANESHIFT_COMMIT LANESHIFT_SPARK_JARS
export TZ=UTC LC_ALL=C.UTF-8 PYTHONHASHSEED=0
umask 022

rm -rf build/release dist
mkdir -p build/release dist
git clone --quiet --no-checkout --no-hardlinks "$root" "$source"
cd "$source"
git checkout --quiet --detach "$(git -C "$root" rev-parse HEAD)"
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
LANESHIFT_COMMIT="$(git rev-parse HEAD | cut -c1-12)"
LANESHIFT_VERSION="$("$python" -m setuptools_scm --force-write-version-files)"
LANESHIFT_SPARK_JARS="$("$python" -c 'import pyspark; print(pyspark.__path__[0])')/jars"
if [ -d "$root/build/tools" ]; then # sbt's launcher, if it was fetched before
  mkdir -p build/tools
  cp "$root"/build/tools/sbt-launch-*.jar build/tools/ 2>/dev/null || true
fi

scripts/quiet.sh "$root/build/logs/release-jar.log" "Building the plugin's jar, version $LANESHIFT_VERSION" \
  scripts/sbt spark/bundled published/publish workload/assembly
mkdir -p python/laneshift/jars lab/laneshift_lab/jars
cp jvm/spark/target/laneshift-spark.jar python/laneshift/jars/
cp jvm/workload/target/laneshift-workload.jar lab/laneshift_lab/jars/

# The wheel from the sdist: whatever that lacks is noticed here.
scripts/quiet.sh "$root/build/logs/release-python.log" "Building sdist and wheel" \
  "$python" -m build --no-isolation --outdir build/python
scripts/quiet.sh "$root/build/logs/release-lab.log" "Building the lab's wheel" \
  "$python" -m build --wheel --no-isolation --outdir build/python lab
"$python" scripts/same_sdist.py build/python/laneshift-*.tar.gz

cd "$root"
cp "$source"/build/python/laneshift* dist/
cp -R "$source/jvm/published/target/repository" dist/maven
"$tools" scripts/sbom.py dist/laneshift-*.whl "$source/jvm/spark/target/bundled.json" >"dist/laneshift-$LANESHIFT_VERSION.cdx.json"
(cd dist && find . -type f ! -name SHA256SUMS | sed 's#^\./##' | sort | xargs sha256sum >SHA256SUMS)
cat dist/SHA256SUMS
