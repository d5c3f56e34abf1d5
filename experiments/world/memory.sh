#!/usr/bin/env bash
# Holds the memory that moelab states for loads of llama.cpp against what their logs print. Builds what it needs first.
# usage: memory.sh [ROWS.csv ...] [--format table|json] [--fit]
# example: experiments/world/memory.sh mine.csv --format json
"$(dirname "$0")/../help.sh" "$0" "$@" && exit
exec "$(dirname "$0")/on_files.sh" world_memory "$@"
