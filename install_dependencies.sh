#!/usr/bin/env bash
# Installs what moelab needs from Debian's packages, if it is missing. Needs root for that, and only then.
# usage: install_dependencies.sh [build|test]      test adds what the test suite needs on top
set -euo pipefail
packages=(g++ cmake ninja-build pkg-config libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libsimgrid-dev liblz4-dev
          libzstd-dev libxxhash-dev zlib1g-dev libeigen3-dev libsqlite3-dev libjs-vega)
[ "${1:-build}" = test ] && packages+=(catch2 libbenchmark-dev clang clang-format libclang-rt-14-dev
                                         g++-aarch64-linux-gnu iproute2 python3-dev python3-venv qemu-user chromium
                                         chromium-driver python3-selenium)
missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" != 0 ]; then
  echo "missing packages; install them as root: apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
