#!/usr/bin/env bash
# Replays a folder of a real server's run, request by request, and prints predicted beside measured. Builds what it needs first.
# usage: run.sh FOLDER [--model NAME] [--gpu NAME] [--gpus N] [--runtime NAME] [--tables FOLDER] [--format table|json] [--plot FILE.svg]
# example: experiments/load/run.sh measured/RTX4090_Llama-3.1-8B --format json --plot out/replay.svg
"$(dirname "$0")/../help.sh" "$0" "$@" && exit
set -euo pipefail
arguments=()
before=
for argument in "$@"; do  # the program runs in the project's folder
  case "$before" in
    --model | --gpu | --gpus | --runtime | --format) ;;
    --plot) argument=$(realpath -m -- "$argument") ;;
    *) if [[ -d "$argument" ]]; then argument=$(realpath -- "$argument"); fi ;;
  esac
  before=$argument
  arguments+=("$argument")
done
exec "$(dirname "$0")/../build_and_run.sh" replay_rows ${arguments[@]+"${arguments[@]}"}
