#!/usr/bin/env bash
# Installs what moelab needs from Debian's packages, if it is missing. Needs root for that, and only then.
# usage: install_dependencies.sh [build|package|quick|test]     package adds what `cpack -G DEB` needs, quick what the release's
#                                                              tests need, test what all of them need
set -euo pipefail
build=(g++ cmake ninja-build pkg-config libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libsimgrid-dev liblz4-dev
       libprotozero-dev libzstd-dev libxxhash-dev zlib1g-dev libeigen3-dev libsqlite3-dev libjs-vega)
package=(dpkg-dev file)
quick=(catch2 libbenchmark-dev clang clang-format lld python3)
all=(libclang-rt-14-dev g++-aarch64-linux-gnu iproute2 python3-dev python3-venv qemu-user chromium chromium-driver
     python3-selenium valgrind)
packages=("${build[@]}")
case ${1:-build} in
  build) ;;
  package) packages+=("${package[@]}") ;;
  quick) packages+=("${quick[@]}") ;;
  test) packages+=("${package[@]}" "${quick[@]}" "${all[@]}") ;;
  *) sed -n '2,4s/^# //p' "$0" >&2; exit 2 ;;
esac
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
apt=(apt-get -qq -o DPkg::Lock::Timeout=600 -o Dpkg::Options::=--force-unsafe-io)
dpkg --configure -a >/dev/null  # where an installation before was interrupted
"${apt[@]}" update
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null || {
  echo "the packages could not be installed ($(df -h --output=avail /var | tail -1 | tr -d ' ') are free on /var): see apt-get's message above" >&2
  exit 1
}
