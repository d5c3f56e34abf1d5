#!/usr/bin/env bash
# Unpacks Debian's arm64 packages of what moelab links into a folder, for cross building and for qemu-user. Nothing is
# installed: several of them (libyaml-cpp-dev, libsimgrid-dev) cannot be, beside the machine's own.
# usage: sysroot.sh FOLDER
set -euo pipefail
[ $# -eq 1 ] || { sed -n 2,4p "$0" >&2; exit 2; }
packages=(libstdc++-12-dev libc6-dev libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libsimgrid-dev liblz4-dev libzstd-dev
          libxxhash-dev libprotozero-dev zlib1g-dev catch2 libeigen3-dev libsqlite3-dev)
mkdir -p "$1"
root=$(realpath "$1")
stamp="$root/.packages"
[ -e "$stamp" ] && [ "$(cat "$stamp")" = "${packages[*]}" ] && exit 0

# apt with a state of its own, for which nothing is installed: it then fetches every dependency.
apt_state="$root.apt"
rm -rf "$root" "$apt_state"
mkdir -p "$root/usr/lib" "$apt_state"/{lists/partial,cache/archives/partial}
ln -s usr/lib "$root/lib"
: > "$apt_state/status"
apt_arm64() {
  apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Install-Recommends=false \
    -o Dir::State="$apt_state" -o Dir::State::status="$apt_state/status" -o Dir::Cache="$apt_state/cache" \
    -o APT::Sandbox::User=root "$@"
}
apt_arm64 update
apt_arm64 install --download-only --yes "${packages[@]}" > /dev/null
for package in "$apt_state"/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$root"
done
find "$root" -type l -lname '/*' | while read -r link; do  # absolute ones would lead out of the folder
  ln -sfr "$root$(readlink "$link")" "$link"
done
rm -rf "$apt_state"
echo "${packages[*]}" > "$stamp"
