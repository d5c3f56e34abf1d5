#!/usr/bin/env bash
# Builds a program of this folder and runs it; the files it is given are relative to where this was called.
# usage: on_files.sh PROGRAM [ARGUMENT...]
set -euo pipefail
arguments=()
before=
for argument in "$@"; do  # the program runs in the project's folder
  if [[ -f "$argument" || ( "$before" == --out && -n "$argument" ) ]]; then argument=$(realpath -m -- "$argument"); fi
  arguments+=("$argument")
  before=$argument
done
exec "$(dirname "$0")/../build_and_run.sh" "${arguments[@]}"
