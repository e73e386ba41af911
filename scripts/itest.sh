#!/usr/bin/env bash
# itest.sh [MODULE OR PYTEST ARGUMENT...]: the cluster tests, with a Docker engine of their own where none runs. `make deep ROOMS=cluster` calls it
# for each module.
# Ends what it started: its engine by its process id; the tests remove their containers themselves. Exit code 77: not on this machine.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
engine=""

cannot() {
  echo "the cluster tests cannot run here: $1" >&2
  exit 77
}

answers() { docker info >/dev/null 2>&1; }

stop() {
  if ! answers; then
    [ -z "$engine" ] || kill "$engine" 2>/dev/null || true
    return
  fi
  # Containers of tests that were killed go; an engine that somebody else uses by now stays.
  PYTHONPATH=integration_tests .venv/bin/python -c 'from cluster.engine import remove_leftovers; remove_leftovers()' || true
  if [ -n "$engine" ] && [ -z "$(docker ps --quiet)" ]; then
    kill "$engine" && wait "$engine" || true
  fi
}

install() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || cannot "$1. Install and start Docker, or run this as root on Debian, where it does so itself."
  scripts/quiet.sh build/logs/docker-install.log "Installing Docker with apt-get" \
    sh -c 'apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends docker.io iptables debootstrap iproute2' ||
    cannot "$1, and apt-get could not install it"
}

trap stop EXIT
if ! answers; then
  command -v docker >/dev/null && [ "$(id -u)" != 0 ] && cannot "no Docker engine answers, or not to you. Start it, or run this as root."
  { command -v docker && command -v dockerd && command -v iptables; } >/dev/null || install "there is no Docker"
  mkdir -p build/logs
  setsid dockerd >build/logs/dockerd.log 2>&1 &
  engine=$!
  for _ in $(seq 120); do
    answers && break
    kill -0 "$engine" 2>/dev/null || break
    sleep 0.5
  done
  answers || cannot "the Docker engine does not start: $(tail -n 1 build/logs/dockerd.log)"
fi

docker/build.sh >/dev/null || cannot "the image of docker/Dockerfile could not be built."
rm -f build/itest/report.md
status=0
[[ "${1:-}" == integration_tests/* ]] || set -- integration_tests/cluster "$@"
.venv/bin/python -m pytest "$@" || status=$?
[ -f build/itest/report.md ] && { echo; cat build/itest/report.md; }
exit "$status"
