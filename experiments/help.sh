#!/usr/bin/env bash
# Prints what a script of experiments/ says of itself in its first lines, if it is asked for help.
# usage: help.sh SCRIPT [ARGUMENT...]     exit status 1: there is no --help among the arguments
# example: experiments/help.sh experiments/world/run.sh --help
[[ "${1-}" != --help ]] || set -- "$0" --help
for argument in "${@:2}"; do
  case "$argument" in
    --help | -h)
      sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "$1"
      exit 0
      ;;
  esac
done
exit 1
