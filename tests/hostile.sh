#!/usr/bin/env bash
# Nearly right files and command lines of every kind, given to the program itself: does it end in time and in bounds of memory,
# with exit status 0, 1 or 2, without control characters in what it prints, with finite numbers and no half-written files?
# usage: tests/hostile.sh MINUTES [BUILD] [--seed N] [--first CASE] [--jobs N]     BUILD: a build folder or program (build/debug)
# A finding is saved under build/hostile/, with its files and the command line in replay.sh; exit status 1 if there is one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -eq 0 ] || [ "$1" = --help ] || [ "$1" = -h ]; then
  sed -n '2,/^set /{/^# /s/^# //p}' "$0"
  exit "$([ $# -gt 0 ] && echo 0 || echo 2)"
fi
minutes=$1
shift
build=$here/../build/debug
if [ $# -gt 0 ] && [ "${1#--}" = "$1" ]; then
  build=$1
  shift
fi
[ -d "$build" ] && build=$build/cli/moelab
[ -x "$build" ] || { echo "tests/hostile.sh: there is no program $build: cmake --preset debug && cmake --build --preset debug" >&2; exit 2; }
exec nice -n 5 python3 "$here/hostile.py" "$minutes" "$build" "$@"
