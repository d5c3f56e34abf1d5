#!/usr/bin/env bash
# Runs published serving benchmarks in the simulator and prints what was measured beside what is predicted. Builds what it needs first.
# usage: run.sh [POINTS.csv ...] [--out FILE.json] [--format table|json]
# example: experiments/serving/run.sh mine.csv --format json --out mine.json
"$(dirname "$0")/../help.sh" "$0" "$@" && exit
exec "$(dirname "$0")/../world/on_files.sh" published_rows "$@"
