#!/usr/bin/env bash
# The Python environment of the package's tests: build/python_venv.
# usage: environment.sh packages      makes it from the Python registry, or says why it cannot (exit status 1)
#        environment.sh package BUILD  builds the wheel from what the build folder BUILD (a release) has compiled already,
#                                     and installs it there
#        environment.sh run ARGS...   runs its python; exit status 77 where there is none
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
venv=$source/build/python_venv
python=$venv/bin/python
# Debian's own Python and pip where they are, and no newer tools that happen to stand on the way: what a bare Debian has.
export PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH
packages=(scikit-build-core nanobind numpy pandas matplotlib tqdm nbclient ipykernel pytest jsonschema perfetto 'dask[distributed]')
site=(-r "$source/docs/requirements.txt" axe-core-python==0.1.0)  # of the pages' site and its test
stamp=$venv/made-from  # written last

packages() {
  cat "$0" "$source/docs/requirements.txt" | cmp -s - "$stamp" && return 0
  rm -rf "$venv"
  mkdir -p "$source/build"
  python3 -m venv "$venv"
  "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile --retries 1 --timeout 30 \
    "${packages[@]}" "${site[@]}"
  cat "$0" "$source/docs/requirements.txt" >"$stamp"
}

package() {  # the build folder keeps its tests and benchmarks
  local wheels=$source/build/wheel
  rm -rf "$wheels"
  "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$wheels" \
    --config-settings "build-dir=$1" --config-settings cmake.define.BUILD_TESTING=ON \
    --config-settings cmake.define.MOELAB_BENCH=ON --config-settings cmake.define.MOELAB_WITH_CUDA=ON \
    --config-settings cmake.define.MOELAB_EXPERIMENTS=ON "$source"
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheels"/*.whl
}

case ${1:-} in
  packages) packages ;;
  package) package "$(realpath "${2:?the build folder}")" ;;
  run)
    shift
    [ -e "$stamp" ] || { echo "skipped: $venv is not made ($0 packages)"; exit 77; }
    exec "$python" "$@"
    ;;
  *) sed -n '2,6s/^# //p' "$0" >&2; exit 2 ;;
esac
