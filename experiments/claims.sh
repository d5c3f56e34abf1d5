#!/usr/bin/env bash
# Prints the numbered claims of the four papers beside ours, with verdicts; or, with `runtimes` first, those that hang on what
# software costs once more, under the runtimes of configs/runtimes. Builds what it needs first.
# usage: experiments/claims.sh [runtimes] [zipmoe] [smoe] [fluxmoe] [prism]
# example: experiments/claims.sh runtimes zipmoe
"$(dirname "$0")/help.sh" "$0" "$@" && exit
exec "$(dirname "$0")/build_and_run.sh" claims "$@"
