#!/usr/bin/env bash
# Installs what is missing, then checks everything: formatting, release build and tests (with the capture script's,
# against the Python library, and the Python package's), sanitizer builds and tests, AArch64 tests under qemu-user, the
# readers of files against random inputs.
set -euo pipefail
cd "$(dirname "$0")"
./install_dependencies.sh test
# Python's packages come from a registry, while this compiles.
mkdir -p build
tests/traces/capture_environment.sh install >build/capture_packages.log 2>&1 &
capture_packages=$!
tests/python/environment.sh packages >build/python_packages.log 2>&1 &
python_packages=$!
installed() {  # installed PROCESS LOG WHAT: waits; where they could not be had, WHAT is skipped, and that is said
  wait "$1" || { cat "$2" >&2; echo "$3 will be skipped: its Python packages could not be installed" >&2; return 1; }
}

stage() { echo "== $1 (after $((SECONDS / 60)) min)"; }

stage format
git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' | xargs clang-format --dry-run --Werror

build() {  # build PRESET: all its targets
  stage "$1: build"
  cmake --preset "$1" >/dev/null
  cmake --build --preset "$1" -- -k 0 --quiet
}
check() {  # check PRESET: all its tests
  stage "$1: test"
  ctest --preset "$1" --parallel "$(($(nproc) + 1))"  # some wait for processes that they start
}
build release
installed "$capture_packages" build/capture_packages.log "the capture test" || true
if installed "$python_packages" build/python_packages.log "the Python package's test"; then
  tests/python/environment.sh package build/release
fi
check release
build asan
check asan
build tsan
check tsan
if tests/arm64/sysroot.sh build/arm64-sysroot; then
  build arm64
  check arm64
else
  echo "arm64 is skipped: Debian's arm64 packages could not be fetched" >&2
fi

stage fuzz
if command -v clang++ >/dev/null; then
  cmake --preset fuzz >/dev/null
  cmake --build --preset fuzz -- -k 0 --quiet
  tests/fuzz/run.sh 5
else
  echo "fuzzing is skipped: there is no clang++" >&2
fi
stage done
