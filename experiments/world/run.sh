#!/usr/bin/env bash
# Predicts published measurements of models being served and prints them beside what was measured. Builds what it needs first.
# usage: run.sh [POINTS.csv] [--format table|json] [--fit]
set -euo pipefail
arguments=()
for argument in "$@"; do  # the program runs in the project's folder
  if [[ -f "$argument" ]]; then argument=$(realpath -- "$argument"); fi
  arguments+=("$argument")
done
exec "$(dirname "$0")/../build_and_run.sh" world_rows ${arguments[@]+"${arguments[@]}"}
