#!/usr/bin/env bash
# Builds the package's wheels into dist/, one for each Python that is named, and tries each in an environment of its own. One wheel
# of CPython 3.12 or newer is for all newer ones too. They use this machine's libraries: see install_dependencies.sh.
# usage: wheels.sh [PYTHON...]     such as wheels.sh python3.11 python3.14; without any, python3
set -euo pipefail
case ${1:-} in -*) sed -n '2,4s/^# //p' "$0" >&2; exit 2 ;; esac
source=$(cd "$(dirname "$0")/.." && pwd)
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir -p "$source/dist"
for python in "${@:-python3}"; do
  rm -rf "${made:?}"/*
  "$python" -m venv "$made/build"
  "$made/build/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$made/wheel" \
    --config-settings "build-dir=$source/build/wheels" "$source"  # what is no Python's is compiled once for all of them
  "$python" -m venv "$made/trial"
  "$made/trial/bin/python" -m pip install --quiet --disable-pip-version-check "$made"/wheel/*.whl
  (cd "$made" && trial/bin/python - <<'TRIAL'
import moelab


class Trial(moelab.CachePolicy):
    """keeps nothing"""

    name = "trial"

    def use(self, uses):
        pass


moelab.run("recorded-default", system="zipmoe-lru", policies=[Trial],
           settings={"overrides.system.cache.policy": "trial", "workload.requests": 1})
TRIAL
  )
  mv "$made"/wheel/*.whl "$source/dist/"
done
ls "$source/dist"
