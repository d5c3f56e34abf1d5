#!/usr/bin/env bash
# All that a machine with an NVIDIA GPU is asked for: the CUDA tests, under compute-sanitizer too where it is installed, the
# GPU's microbenchmarks, a profile of the machine, and the simulator held against runs on the GPU.
# usage: hw/on_gpu.sh BUILD OUT [NAME]     BUILD: a build folder with moelab and test_cuda (configured where nvcc is)
#                                          OUT: folder for logs, bench.json, NAME.yaml (the profile; default: gpu-here) and
#                                          the validations' results and records (for hw/machines)
# example: cmake --preset release && cmake --build build/release --target moelab test_cuda && hw/on_gpu.sh build/release out/gpu
set -uo pipefail
[ $# -ge 2 ] || { sed -n '/^# usage/,/^[^#]/s/^# //p' "$0" >&2; exit 2; }
build=$1 out=$2 name=${3:-gpu-here}
find_program() {  # in a build folder, or one with the programs alone
  for at in "$build/$1" "$build/$2"; do [ -x "$at" ] && { echo "$at"; return; }; done
  echo "$build has no $(basename "$1"): build it where nvcc is found" >&2
  exit 2
}
moelab=$(find_program cli/moelab moelab) || exit 2
tests=$(find_program tests/hw/test_cuda test_cuda) || exit 2
nvidia-smi -L >/dev/null 2>&1 || { echo "no NVIDIA GPU: nvidia-smi finds none" >&2; exit 3; }
mkdir -p "$out" || exit 2
stores=$(mktemp -d "$out/stores.XXXXXX") || exit 2
trap 'rm -rf "$stores"' EXIT
failed=0
step() {  # step NAME COMMAND...: its output in OUT/NAME.log
  local log=$out/$1.log start=$SECONDS
  shift
  if "$@" >"$log" 2>&1; then echo "passed  $((SECONDS - start)) s  $log"; else
    echo "FAILED  $((SECONDS - start)) s  $log"
    tail -5 "$log"
    failed=1
  fi
}
step tests "$tests"
if command -v compute-sanitizer >/dev/null; then
  step memcheck compute-sanitizer --tool memcheck --error-exitcode 1 "$tests" "many *,paged memory*,compressed tensors*"
  step racecheck compute-sanitizer --tool racecheck --error-exitcode 1 "$tests" "many compressed*"
else
  echo "skipped: compute-sanitizer is not installed"
fi
step bench "$moelab" bench run cuda-copy cuda-link cuda-recover cuda-expert cuda-launch cuda-remap cuda-overlap \
  --dir "$out" --out "$out/bench.json"
step calibrate "$moelab" calibrate --dir "$out" --out "$out/$name.yaml"
for scenario in validate-smoe validate-windowed; do
  [ -e "$out/$name.yaml" ] || { echo "skipped: $scenario, for want of a profile"; continue; }
  step "$scenario" "$moelab" validate "$scenario" --device "$out/$name.yaml" --compute gpu --store "$stores" \
    --out "$out/$scenario.json" --record "$out/record-$scenario.json"
done
exit $failed
