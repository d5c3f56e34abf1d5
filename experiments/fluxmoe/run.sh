#!/usr/bin/env bash
# Prints the FluxMoE paper's figures beside ours, and its claims with verdicts. Builds what it needs first.
# usage: experiments/fluxmoe/run.sh [rows] [speeds] [budgets] [collapse] [lockstep] [starved] [sensitivity] [adaptation] [claims]
# example: experiments/fluxmoe/run.sh budgets claims
"$(dirname "$0")/../help.sh" "$0" "$@" && exit
exec "$(dirname "$0")/../build_and_run.sh" fluxmoe_rows "$@"
