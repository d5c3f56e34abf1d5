#!/usr/bin/env bash
# Runs the fuzz targets built by the preset `debug`: each on its corpus, then on new inputs, for so many seconds.
# usage: tests/fuzz/run.sh SECONDS [TARGET..]     no target: all of them, as many at a time as there are processors
# Fails on any finding; its input is kept in build/debug/fuzz-findings, and how to repeat it is said.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${here%/tests/fuzz}/build/debug
findings=$build/fuzz-findings
[[ "${1:-}" =~ ^[1-9][0-9]*$ ]] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
seconds=$1
shift

# Files that targets write, and the inputs they find, are in memory where the system has such a place.
scratch=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/moelab-fuzz-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$findings"

run_target() {
  local target=$1 program=$build/tests/fuzz/fuzz_$1 corpus=$here/corpus/$1 log=$scratch/$1.log
  local dictionary=() allocation_mb=64
  [ -x "$program" ] || { echo "fuzz $target: not built: cmake --preset debug && cmake --build --preset debug --target fuzz" >&2; return 1; }
  case $target in
    safetensors | routing_trace | counts_trace)
      dictionary=(-dict="$here/safetensors.dict")
      allocation_mb=160 ;;  # a zstd frame may ask for a window of up to 128 MiB
  esac
  mkdir -p "$scratch/$target"/{new,tmp}
  if TMPDIR=$scratch/$target/tmp "$program" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=512 \
    -malloc_limit_mb="$allocation_mb" -print_final_stats=1 -artifact_prefix="$findings/$target-" "${dictionary[@]}" \
    "$scratch/$target/new" "$corpus" >"$log" 2>&1; then
    echo "fuzz $target: $(sed -n 's/^stat::number_of_executed_units: */executions /p' "$log")," \
      "$(grep -o 'cov: [0-9]*' "$log" | tail -1), nothing found"
    return 0
  fi
  tail -40 "$log" >&2
  echo "fuzz $target: FOUND something. Repeat it with: build/debug/tests/fuzz/fuzz_$target FILE, where FILE is" \
    "$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)" >&2
  return 1
}
export -f run_target
export here build findings scratch seconds

[ $# -gt 0 ] || set -- $(cd "$here" && ls -- *_fuzz.cpp | sed 's/_fuzz\.cpp$//')
printf '%s\n' "$@" | xargs -P "$(nproc)" -I '{}' bash -euo pipefail -c 'run_target {}'
