#!/usr/bin/env bash
# usage: libraries_first.sh LINKER ARGUMENT...
# Links a program of tests with the project's libraries before the tests' own objects, all of their members, each once. Of an
# inline function that both have, a linker keeps the first it meets: so the libraries run as they were optimized, as they do in
# the program, and not with what the tests, which are not optimized, made of std::vector (a third of what tests take).
set -euo pipefail
linker=$1
shift
declare -A seen
libraries=() rest=()
for argument in "$@"; do
  case $argument in
    *.a) [ -n "${seen[$argument]:-}" ] || libraries+=("$argument"); seen[$argument]=1 ;;
    *) rest+=("$argument") ;;
  esac
done
exec "$linker" -Wl,--whole-archive "${libraries[@]}" -Wl,--no-whole-archive "${rest[@]}"
