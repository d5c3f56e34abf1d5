#!/usr/bin/env bash
# Prints the two simulating executors side by side. Builds what it needs first.
# example: experiments/contention/run.sh
"$(dirname "$0")/../help.sh" "$0" "$@" && exit
exec "$(dirname "$0")/../build_and_run.sh" contention_rows
