#!/usr/bin/env bash
# quiet.sh LOG MESSAGE COMMAND...: says MESSAGE, runs COMMAND with its output in LOG, shows LOG's end if it fails.
set -euo pipefail

log="$1"
message="$2"
shift 2
mkdir -p "$(dirname "$log")"
echo "$message (log: $log)"
status=0
"$@" >"$log" 2>&1 </dev/null || status=$?
if [ "$status" -ne 0 ]; then
  echo "Failed with exit code $status. The last lines of $log:" >&2
  tail -n 40 "$log" >&2
  exit "$status"
fi
