#!/usr/bin/env bash
# Prints the ZipMoE paper's figures beside ours, or one of the tables. Builds what it needs first.
# usage: run.sh [latency, gains, ablation, readings, plans, host or claims]
# example: experiments/zipmoe/run.sh latency
"$(dirname "$0")/../help.sh" "$0" "$@" && exit
exec "$(dirname "$0")/../build_and_run.sh" zipmoe_rows "$@"
