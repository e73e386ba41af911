#!/usr/bin/env bash
# Are the tools that the build cannot fetch by itself there, and new enough? Silent if so; otherwise one sentence each.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
java="${JAVA_HOME:+$JAVA_HOME/bin/}java"
python="${PYTHON:-python3}"
missing=0

# complain FOUND NEEDED WAY_OUT
complain() {
  echo "laneshift: $1, but $2 is needed: $3." >&2
  missing=1
}

# at_least MAJOR.MINOR MAJOR.MINOR: is the first version no older than the second?
at_least() {
  local major="${1%%.*}" rest="${1#*.}" want_major="${2%%.*}" want_minor="${2#*.}"
  local minor="${rest%%.*}"
  [ "$major" -gt "$want_major" ] || { [ "$major" -eq "$want_major" ] && [ "$minor" -ge "$want_minor" ]; }
}

get_java="install a JDK (Debian and Ubuntu: apt install openjdk-17-jdk, or default-jdk; macOS: brew install openjdk@17) or point JAVA_HOME at one"
if ! command -v "$java" >/dev/null; then
  complain "no Java found (looked for $java)" "Java 17 or newer" "$get_java"
else
  # `openjdk version "17.0.15" ...`, or "1.8.0_402" for the old ones.
  version="$("$java" -version 2>&1 | sed -nE 's/.* version "([0-9]+)(\.([0-9]+))?.*/\1.\3/p' | head -n 1)" || version=""
  case "$version" in
    "") complain "$java does not tell its version" "Java 17 or newer" "$get_java" ;;
    *.) version="${version}0" ;;
  esac
  if [ -n "$version" ] && ! at_least "$version" 17.0; then
    complain "found Java $version at $(command -v "$java")" "Java 17 or newer" "$get_java"
  elif ! command -v "${java}c" >/dev/null; then
    complain "found $java without javac: a runtime" "a whole JDK" "$get_java"
  fi
fi

get_python="install one (Debian and Ubuntu: apt install python3 python3-venv; macOS: brew install python) or set PYTHON to one"
if ! command -v "$python" >/dev/null; then
  complain "no Python found (looked for $python)" "Python 3.11 or newer" "$get_python"
else
  version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" || version=""
  if [ -z "$version" ]; then
    complain "$python does not tell its version" "Python 3.11 or newer" "$get_python"
  elif ! at_least "$version" 3.11; then
    complain "found Python $version at $(command -v "$python")" "Python 3.11 or newer" "$get_python"
  elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    complain "Python $version at $(command -v "$python") has no venv module" "venv" "Debian and Ubuntu: apt install python3-venv"
  fi
fi

# Maven only fetches sbt's launcher, and only when there is no sbt.
launcher="$root/build/tools/sbt-launch-$(sed -n 's/^sbt\.version=//p' "$root/project/build.properties").jar"
if ! command -v sbt >/dev/null && [ ! -s "$launcher" ]; then
  get_maven="install one of them (Debian and Ubuntu: apt install maven; macOS: brew install sbt)"
  if ! command -v mvn >/dev/null; then
    complain "neither sbt nor Maven found" "sbt 1.x, or Maven 3.6 or newer" "$get_maven"
  elif [ "$missing" -eq 0 ]; then # Maven cannot tell its version without Java
    version="$(mvn --batch-mode --version 2>/dev/null | sed -nE 's/.*Apache Maven ([0-9]+\.[0-9]+).*/\1/p' | head -n 1)" || version=""
    if [ -z "$version" ]; then
      complain "mvn does not tell its version" "sbt 1.x, or Maven 3.6 or newer" "$get_maven"
    elif ! at_least "$version" 3.6; then
      complain "found no sbt, and Maven $version at $(command -v mvn)" "sbt 1.x, or Maven 3.6 or newer" "$get_maven"
    fi
  fi
fi

exit "$missing"
