#!/usr/bin/env bash
# Prints the Prism paper's figures beside ours, and its numbered claims with verdicts. Builds what it needs first.
# usage: run.sh [claims | more | scale [GPUS [SEEDS [REQUESTS [once | migrating [plain | fitted]]]]]]
# example: experiments/prism/run.sh claims
"$(dirname "$0")/../help.sh" "$0" "$@" && exit
exec "$(dirname "$0")/../build_and_run.sh" prism_rows "$@"
