#!/usr/bin/env bash
# Installs what is missing, then checks everything: formatting, release build and tests (with the capture script's,
# against the Python library), sanitizer build and tests, the readers of files against random inputs.
set -euo pipefail
cd "$(dirname "$0")"
./install_dependencies.sh test
tests/traces/capture_environment.sh install ||
  echo "the capture test will be skipped: its Python packages could not be installed" >&2

echo "== format"
git ls-files '*.cpp' '*.hpp' | xargs clang-format --dry-run --Werror

for preset in release asan; do
  echo "== $preset: build"
  cmake --preset "$preset" >/dev/null
  cmake --build "build/$preset" -- -k 0 --quiet
  echo "== $preset: test"
  ctest --preset "$preset" --parallel "$(nproc)"
done

echo "== fuzz"
if command -v clang++ >/dev/null; then
  cmake --preset fuzz >/dev/null
  cmake --build --preset fuzz -- -k 0 --quiet
  tests/fuzz/run.sh 8
else
  echo "fuzzing is skipped: there is no clang++" >&2
fi
