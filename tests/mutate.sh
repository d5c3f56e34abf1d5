#!/usr/bin/env bash
# Do the tests notice a mistake? Makes small mistakes (mutants) in sources, one at a time, and runs the folder's tests on
# each; what no test notices is listed. Works on a copy, build/mutate/source, and leaves the checkout as it is.
# usage: tests/mutate.sh FILE_OR_FOLDER... [--count N] [--seed S] [--list]     N mutants of these files (20), S picks which (1)
#        tests/mutate.sh --again                                              the survivors of build/mutate/survivors.json
# e.g.   tests/mutate.sh sim/serving policies/cache/lru.cpp --count 30 --seed 7
# A mutant: another operator, a constant one more or less, a condition negated, a statement left out, min for max.
# The first call builds for about 20 minutes of one processor; then a mutant takes some seconds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
for tool in python3 cmake ninja; do
  command -v "$tool" >/dev/null || { echo "tests/mutate.sh needs $tool: ./install_dependencies.sh test" >&2; exit 2; }
done
if [ $# -eq 0 ] || [ "$1" = --help ] || [ "$1" = -h ]; then
  sed -n '2,/^set /{/^# /s/^# //p}' "$0"
  exit "$([ $# -gt 0 ] && echo 0 || echo 2)"
fi
exec nice -n 5 python3 "$here/mutate.py" "$@"
