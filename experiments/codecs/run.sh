#!/usr/bin/env bash
# Prints every codec under every cache policy of the ZipMoE family. Builds what it needs first.
set -euo pipefail
cd "$(dirname "$0")/../.."
./install_dependencies.sh build
cmake --preset release -DBUILD_TESTING=OFF -DMOELAB_BENCH=OFF >/dev/null
cmake --build build/release --target codec_rows -- --quiet >/dev/null
exec build/release/experiments/codec_rows
