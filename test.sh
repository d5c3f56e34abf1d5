#!/usr/bin/env bash
# Installs what is missing, then checks everything: formatting, release build and tests (with the pages' commands, the report
# and the site in a browser, the capture script against the Python library, the Python package, a cluster, and threads under their
# sanitizer), a Debug build that compiles each file alone, with sanitizers, the readers of files against random inputs, and AArch64
# tests under qemu-user. tests/README.md says what each stage is for.
# usage: ./test.sh          all of it
#        ./test.sh quick    the loop of daily work: a tenth of the tests' random instances and none that takes long; called again,
#                           the tests of those programs that were linked anew
set -euo pipefail
cd "$(dirname "$0")"
case ${1:-all} in
  all | quick) what=${1:-all} ;;
  *) sed -n '/^# usage/,/^[^#]/s/^# //p' "$0" >&2; exit 2 ;;
esac
mkdir -p build
exec 9>build/.test_lock
flock -n 9 || { echo "another ./test.sh runs in this checkout: wait for its end, or end it" >&2; exit 1; }
if [ "$what" = all ]; then needed_gb=8 built_first=release; else needed_gb=2 built_first=quick; fi
free_gb=$(($(df --output=avail -k build | tail -1) / 1000000))
[ "$free_gb" -ge "$needed_gb" ] || [ -e "build/$built_first/build.ninja" ] || {
  echo "$free_gb GB of disk are free, $needed_gb are needed: make room, or clone to a larger disk" >&2; exit 1; }

# Each stage's name and the seconds it took, printed at the end.
stage_name='' stage_start=0 times=''
stage() {
  [ -z "$stage_name" ] || times+=$(printf '%6d s  %s' $((SECONDS - stage_start)) "$stage_name")$'\n'
  stage_name=$1 stage_start=$SECONDS
  [ -z "$1" ] || echo "== $1 (after $((SECONDS / 60)) min)"
}
background=()
start() {  # start LOG COMMAND...: in the background, without the lock; ended with this script
  local log=build/$1
  shift
  set -m  # a group of its own, so that all of it can be ended
  "$@" >"$log" 2>&1 9>&- </dev/null &
  set +m
  background+=($!)
}
ended() {
  local status=$?
  trap - EXIT
  for process in "${background[@]}"; do kill -- -"$process" 2>/dev/null || true; done
  wait
  [ -z "$times" ] || printf '\n%s%6d s  all\n' "$times" "$SECONDS"
  [ "$status" = 0 ] || echo "FAILED in stage: $stage_name" >&2
  exit "$status"
}
trap ended EXIT
trap 'exit 130' INT TERM

build() {  # build PRESET
  stage "$1: build"
  cmake --preset "$1" >"build/$1.configure.log" || { cat "build/$1.configure.log" >&2; return 1; }
  # Compilers' memory in large pages: 3 to 8 % less of clang++'s time, measured on this project's files.
  GLIBC_TUNABLES=glibc.malloc.hugetlb=1 cmake --build --preset "$1" -- -k 0 --quiet
}
check() {  # check PRESET [CTEST OPTION...]
  stage "$1: test"
  ctest --preset "$1" --parallel "$(($(nproc) + 2))" "${@:2}" && return  # the long ones wait for what they start
  # Once more at the end, where it is looked for: a log is long, and may be cut in its middle.
  echo "== $1: what failed (whole: build/$1/Testing/Temporary/LastTest.log)"
  grep -E -A 12 ': FAILED:|ERROR: .*Sanitizer|runtime error:|^E  |Error: |^FAILED' "build/$1/Testing/Temporary/LastTest.log" | cut -c 1-300 | tail -80 || true
  return 1
}
linked_since() {  # linked_since FILE: "|test_a:|test_b:", the test programs of the preset quick that are newer than FILE
  find build/quick/tests -type f -name 'test_*' -executable -newer "$1" -printf '|%f:'
  [ ! build/quick/cli/moelab -nt "$1" ] || printf '|test_cli:'  # it runs the program
}

stage install
./install_dependencies.sh quick
if [ "$what" = quick ]; then
  stage format
  git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' | xargs clang-format --dry-run --Werror
  build quick
  passed=build/quick/passed  # programs older than this file have passed their tests
  changed=()
  [ ! -e "$passed" ] || changed=(--tests-regex "^(include_arrows|unique_names)$(linked_since "$passed")")
  touch "$passed.new"  # now: what is linked while tests run is newer
  check quick "${changed[@]}"
  mv "$passed.new" "$passed"
  stage ''
  exit 0
fi

# What is fetched and installed while this compiles: the other stages' packages, Python's from their registry, Debian's for
# AArch64. Where the registry cannot be had, its tests are skipped, and that is said.
fetch() {
  ./install_dependencies.sh test
  tests/python/environment.sh packages && touch build/python_packages.done
  tests/traces/capture_environment.sh install && touch build/capture_packages.done
  tests/arm64/sysroot.sh build/arm64-sysroot && touch build/arm64_packages.done
}
rm -f build/*_packages.done
start fetch.log fetch
fetching=$!
stage format
git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' | xargs clang-format --dry-run --Werror
build release
stage 'packages: the rest of installing'
wait "$fetching" || true
./install_dependencies.sh test  # nothing left to do, or what is wrong is said
there() {  # there NAME WHAT: whether NAME's packages could be had
  [ -e "build/$1_packages.done" ] && return 0
  tail -20 build/fetch.log >&2
  echo "$2 is skipped: its packages could not be had" >&2
  return 1
}
there capture "the capture test" || true
if there python "the Python package's test"; then
  stage 'python: package'
  tests/python/environment.sh package build/release
fi
check release
build debug
check debug
stage 'fuzz: run'
tests/fuzz/run.sh 3
if there arm64 arm64; then
  build arm64
  check arm64
fi
stage ''
echo "all stages passed"
