#!/usr/bin/env bash
# Prints the SMoE paper's figures beside ours, or its numbered claims alone. Builds what it needs first.
# usage: run.sh [claims]
# example: experiments/smoe/run.sh claims
"$(dirname "$0")/../help.sh" "$0" "$@" && exit
exec "$(dirname "$0")/../build_and_run.sh" smoe_rows "$@"
