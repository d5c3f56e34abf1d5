#!/usr/bin/env bash
# Time and peak memory of simulations of 64 to 4,096 GPUs, one a server, as a Markdown table.
# usage: scale.sh [EXECUTOR TOPOLOGY GPUS:REQUESTS_OF_EACH ...]      needs GNU time; builds what it needs
# example: experiments/prism/scale.sh fast star 64:40 256:40
"$(dirname "$0")/../help.sh" "$0" "$@" && exit
set -euo pipefail
cd "$(dirname "$0")/../.."
executor=${1:-fast}
topology=${2:-star}
points=("${@:3}")
[[ ${#points[@]} -gt 0 ]] || points=(64:40 256:40 1024:2 4096:1)
./install_dependencies.sh build
cmake --preset release -DBUILD_TESTING=OFF -DMOELAB_BENCH=OFF >/dev/null
cmake --build build/release --target moelab -- --quiet >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "| GPUs | requests | executor, network | seconds | ms a request | peak memory, MB |"
echo "|---|---|---|---|---|---|"
for point in "${points[@]}"; do
  gpus=${point%:*} requests=${point#*:}
  sed "s/count: 64/count: $gpus/; s/topology: star/topology: $topology/" \
    experiments/prism/edge-cluster.yaml >"$work/edge-cluster.yaml"
  sed "s/requests: 40/requests: $requests/" experiments/prism/scale.yaml >"$work/scale.yaml"
  /usr/bin/time -o "$work/time" -f '%e %M' \
    build/release/cli/moelab run "$work/scale.yaml" --executor "$executor" --out "$work/run.json" >/dev/null
  read -r seconds kilobytes <"$work/time"
  awk -v g="$gpus" -v n="$((gpus * requests))" -v w="$executor, $topology" -v s="$seconds" -v k="$kilobytes" \
    'BEGIN { printf "| %d | %d | %s | %.1f | %.1f | %.0f |\n", g, n, w, s, 1000 * s / n, k * 1024 / 1e6 }'
done
