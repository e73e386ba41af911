#!/usr/bin/env bash
# Builds the image of docker/Dockerfile with the Spark of requirements.lock, if it is not there yet, and prints its name.
# Where no registry is within reach its base image is made with debootstrap, as root.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
base=debian:bookworm-slim
local_base=laneshift-base:bookworm
base_python=3.11
log=build/logs/docker-image.log

pinned() { grep -E "^($1)==" requirements.lock; }
control='grpcio|grpcio-status|googleapis-common-protos|protobuf|typing_extensions'
version="$({ cat docker/Dockerfile; pinned "pyspark|py4j|numpy|click|$control"; } | sha256sum | cut -c1-12)"
image="laneshift-cluster:$version"
if docker image inspect "$image" >/dev/null 2>&1; then
  echo "$image"
  exit 0
fi

mkdir -p build/logs
folder="$(mktemp -d "${TMPDIR:-/tmp}/laneshift-image.XXXXXX")"
finish() {
  status=$?
  rm -rf "$folder"
  if [ "$status" -ne 0 ]; then
    tail -n 20 "$log" >&4
    echo "The image could not be built; all output is in $log." >&4
  fi
}
trap finish EXIT
echo "Building the image $image: a few minutes the first time (log: $log)" >&2
exec 3>&1 4>&2 >"$log" 2>&1

exists() { docker image inspect "$1" >/dev/null 2>&1; }
if ! exists "$base" && ! exists "$local_base" && ! timeout 60 docker pull --quiet "$base"; then
  command -v debootstrap || { echo "No registry has $base within reach; install debootstrap, which makes it here."; exit 1; }
  debootstrap --variant=minbase bookworm "$folder/base"
  rm -rf "$folder"/base/var/cache/apt/archives/*.deb "$folder"/base/var/lib/apt/lists/*
  tar -C "$folder/base" -c . | docker import - "$local_base"
fi
exists "$base" || base="$local_base"

# shellcheck disable=SC2046
.venv/bin/python -m pip wheel --no-deps --wheel-dir "$folder/context/wheels" $(pinned 'pyspark|py4j|click')
# shellcheck disable=SC2046
.venv/bin/python -m pip download --no-deps --only-binary=:all: --python-version "$base_python" --dest "$folder/context/wheels" $(pinned "numpy|$control")
# Docker's newer builder is an extra package; the older one does, too.
docker buildx version || export DOCKER_BUILDKIT=0
docker build --network host --build-arg "BASE_IMAGE=$base" --tag "$image" --tag laneshift-cluster:latest \
  --file docker/Dockerfile "$folder/context"
echo "$image" >&3
