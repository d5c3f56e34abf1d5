#!/usr/bin/env bash
# Each script of experiments/ that a user calls says, when it is asked for help, what it does and how it is called, with an example, and
# does nothing else.
# usage: script_help.sh SOURCE_DIR
set -euo pipefail
cd "$1"
tools=$(mktemp -d)  # all that a script finds: nothing that builds or runs anything
trap 'rm -rf "$tools"' EXIT
for tool in bash dirname sed; do ln -s "$(command -v "$tool")" "$tools/$tool"; done
count=0
for script in experiments/*.sh experiments/*/*.sh; do
  case "$script" in */build_and_run.sh | */on_files.sh | */help.sh) continue ;; esac
  for asked in "--help" "rows -h"; do
    # shellcheck disable=SC2086
    said=$(PATH=$tools "$script" $asked 2>&1) || { echo "$script $asked: $said"; exit 1; }
    first=$(sed -n '2s/^# //p' "$script")
    [[ "$said" == "$first"* && "$said" == *$'\n'"example: $script"* ]] || { echo "$script $asked says: $said"; exit 1; }
    [[ $(wc -l <<<"$said") -le 5 ]] || { echo "$script $asked says too much: $said"; exit 1; }
  done
  count=$((count + 1))
done
[[ $count -ge 12 ]] || { echo "only $count scripts"; exit 1; }
echo "$count scripts say how they are called"
