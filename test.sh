#!/usr/bin/env bash
# Installs what is missing, then checks everything: formatting, release build and tests (with the capture script's,
# against the Python library, and the Python package's), sanitizer builds and tests, AArch64 tests under qemu-user, the
# readers of files against random inputs.
set -euo pipefail
cd "$(dirname "$0")"
./install_dependencies.sh test
tests/traces/capture_environment.sh install ||
  echo "the capture test will be skipped: its Python packages could not be installed" >&2
if tests/python/environment.sh packages; then
  echo "== Python package"
  MOELAB_WHEEL_FLAGS="-O1 -DNDEBUG" tests/python/environment.sh package  # a build of its own: sooner done at -O1
else
  echo "the Python package's tests will be skipped: what they need could not be installed" >&2
fi

echo "== format"
git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' | xargs clang-format --dry-run --Werror

check() {  # check PRESET: all its targets, all its tests
  echo "== $1: build"
  cmake --preset "$1" >/dev/null
  cmake --build --preset "$1" -- -k 0 --quiet
  echo "== $1: test"
  ctest --preset "$1" --parallel "$(nproc)"
}
check release
check asan
check tsan
if tests/arm64/sysroot.sh build/arm64-sysroot; then
  check arm64
else
  echo "arm64 is skipped: Debian's arm64 packages could not be fetched" >&2
fi

echo "== fuzz"
if command -v clang++ >/dev/null; then
  cmake --preset fuzz >/dev/null
  cmake --build --preset fuzz -- -k 0 --quiet
  tests/fuzz/run.sh 8
else
  echo "fuzzing is skipped: there is no clang++" >&2
fi
