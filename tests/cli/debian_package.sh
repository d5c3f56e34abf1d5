#!/usr/bin/env bash
# The Debian package that cpack makes: what it needs, where things lie, and its program as it was unpacked; 77 where what packs is
# not installed.
# usage: debian_package.sh CPACK BUILD_DIR
set -euo pipefail
for tool in dpkg-deb dpkg-shlibdeps file; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed (install_dependencies.sh package)"; exit 77; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$1" -G DEB --config "$2/CPackConfig.cmake" -B "$scratch" >"$scratch/said" 2>&1 || { cat "$scratch/said" >&2; exit 1; }
package=$(ls "$scratch"/moelab_*_"$(dpkg --print-architecture)".deb)
needs=$(dpkg-deb --field "$package" Depends)
for library in libc6 libstdc++6 libsimgrid libyaml-cpp; do  # SimGrid's is the module's alone
  case $needs in *"$library"*) ;; *) echo "$library is not among what it needs: $needs" >&2; exit 1 ;; esac
done

dpkg-deb --extract "$package" "$scratch/root"
cd "$scratch/root"
for file in usr/bin/moelab usr/lib/moelab/libmoelab_simgrid.so usr/lib/moelab/libmoelab_policy.a usr/lib/cmake/moelab/moelabConfig.cmake \
  usr/include/moelab/policy/policy_library.hpp usr/share/moelab/templates/cache.cpp.in usr/share/moelab/schemas/scenario.schema.json \
  usr/share/bash-completion/completions/moelab usr/share/zsh/vendor-completions/_moelab usr/share/fish/vendor_completions.d/moelab.fish \
  usr/share/man/man1/moelab.1.gz usr/share/man/man1/moelab-trace-stats.1.gz usr/share/doc/moelab/copyright; do
  [ -s "$file" ] || { echo "$file is not in the package" >&2; exit 1; }
done
[ "$(find . -maxdepth 2 -mindepth 2 | sort | tr '\n' ' ')" = "./usr/bin ./usr/include ./usr/lib ./usr/share " ]
[ ! -e usr/moelab ]  # the Python package's folder
for executor in fast simgrid; do
  env -i usr/bin/moelab run zipmoe-orin --system zipmoe-lru --executor "$executor" --set workload.requests=1 \
    --set workload.output_tokens=4 >/dev/null
done
env -i usr/bin/moelab new policy cache mine --out "$scratch/mine" >/dev/null
grep -q "$scratch/root/usr" "$scratch/mine/CMakeLists.txt"
