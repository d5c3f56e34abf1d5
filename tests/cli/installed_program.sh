#!/usr/bin/env bash
# The program as `cmake --install` leaves it, away from its build, runs both executors.
# usage: installed_program.sh CMAKE BUILD_DIR
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$1" --install "$2" --prefix "$scratch/moelab" --component Unspecified >/dev/null
mv "$scratch/moelab" "$scratch/moved"
for script in bash-completion/completions/moelab zsh/site-functions/_moelab fish/vendor_completions.d/moelab.fish; do
  grep -q "moelab completion" "$scratch/moved/share/$script"
done
grep -q "^.TH MOELAB..RUN 1" "$scratch/moved/share/man/man1/moelab-run.1"
for kind in scenario system device cluster model sweep; do
  cmp <(env -i "$scratch/moved/bin/moelab" schema "$kind") "$scratch/moved/share/moelab/schemas/$kind.schema.json"
done
for executor in fast simgrid; do
  env -i "$scratch/moved/bin/moelab" run zipmoe-orin --system zipmoe-lru --executor "$executor" --format json \
    --set workload.requests=1 --set workload.output_tokens=4 >"$scratch/$executor.json"
  grep -q "\"executor\": \"$executor\"" "$scratch/$executor.json"
done
# Without the module: said, and what was asked is not run otherwise.
rm "$scratch/moved/lib/moelab/libmoelab_simgrid.so"
status=0
env -i "$scratch/moved/bin/moelab" run zipmoe-orin --executor simgrid 2>"$scratch/said" >"$scratch/out" || status=$?
[ "$status" = 2 ] && [ ! -s "$scratch/out" ] && grep -q "executor simgrid: SimGrid's part of moelab is not there" "$scratch/said"
