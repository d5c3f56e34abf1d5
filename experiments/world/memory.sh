#!/usr/bin/env bash
# Holds the memory that moelab states for loads of llama.cpp against what their logs print. Builds what it needs first.
# usage: memory.sh [ROWS.csv] [--format table|json] [--fit]
set -euo pipefail
arguments=()
for argument in "$@"; do  # the program runs in the project's folder
  if [[ -f "$argument" ]]; then argument=$(realpath -- "$argument"); fi
  arguments+=("$argument")
done
exec "$(dirname "$0")/../build_and_run.sh" world_memory ${arguments[@]+"${arguments[@]}"}
