#!/usr/bin/env bash
# Holds the memory that moelab states for loads of llama.cpp against what their logs print. Builds what it needs first.
# usage: memory.sh [ROWS.csv ...] [--format table|json] [--fit]
exec "$(dirname "$0")/on_files.sh" world_memory "$@"
