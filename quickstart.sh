#!/usr/bin/env bash
# Installs what is missing, builds moelab, and runs its main job: DeepSeek-V2-Lite on a Jetson AGX Orin under every system.
# Leaves out/zipmoe-orin.json and out/zipmoe-orin.timeline.pftrace.
set -euo pipefail
cd "$(dirname "$0")"
./install_dependencies.sh build
cmake --preset release -DBUILD_TESTING=OFF -DMOELAB_BENCH=OFF -DMOELAB_EXPERIMENTS=OFF >/dev/null
cmake --build build/release --target moelab
mkdir -p out
echo
build/release/cli/moelab run zipmoe-orin --out out/zipmoe-orin.json --timeline out/zipmoe-orin.timeline.pftrace \
  --timeline-tokens 2:8
