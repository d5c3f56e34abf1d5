#!/usr/bin/env bash
# Predicts published measurements of models being served and prints them beside what was measured. Builds what it needs first.
# usage: run.sh [POINTS.csv ...] [--out FILE.json] [--format table|json] [--fit]
# example: experiments/world/run.sh mine.csv --format json --out mine.json
"$(dirname "$0")/../help.sh" "$0" "$@" && exit
exec "$(dirname "$0")/on_files.sh" world_rows "$@"
