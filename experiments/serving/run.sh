#!/usr/bin/env bash
# Runs published serving benchmarks in the simulator and prints what was measured beside what is predicted. Builds what it needs first.
# usage: run.sh [POINTS.csv ...] [--out FILE.json] [--format table|json]
exec "$(dirname "$0")/../world/on_files.sh" published_rows "$@"
