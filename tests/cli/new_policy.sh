#!/usr/bin/env bash
# `moelab new policy` for each family, from the program as it is installed and away from its sources and its build: what it writes
# compiles without a warning, keeps its family's rules, and runs in a scenario.
# usage: new_policy.sh CMAKE BUILD_DIR CXX
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$1" --install "$2" --prefix "$scratch/moelab" --component Unspecified >/dev/null
mv "$scratch/moelab" "$scratch/moved"
moelab=$scratch/moved/bin/moelab
cd "$scratch"
ls moved/include/moelab/policy/policy_library.hpp >/dev/null

# One as its own CMakeLists.txt says, the others by the compiler alone.
"$moelab" new policy cache mine --out "a folder" >said
grep -q "^compile:  cmake -S 'a folder' -B 'a folder/build'" said
bash -c "$(sed -n 's/^compile:  //p' said)" >/dev/null
bash -c "$(sed -n 's/^check:    //p' said)" >/dev/null
compile() {  # compile FAMILY
  "$moelab" new policy "$1" "my-$1" --out "$1" >/dev/null
  "$2" -std=c++20 -O1 -shared -fPIC -Wall -Wextra -Werror -Imoved/include "$1/my-$1.cpp" moved/lib/moelab/libmoelab_policy.a -o "$1/libmy-$1.so"
  "$moelab" check-policy "my-$1" --policy-library "$1/libmy-$1.so" | grep -q "every rule held"
}
export -f compile
export moelab
families=$(ls moved/share/moelab/templates/*.cpp | xargs -n1 basename -s .cpp)
[ "$(echo "$families" | wc -l)" = 11 ]
for family in $families; do echo "$family"; done | xargs -P 2 -I{} bash -ec "compile {} '$3'"
run() { "$moelab" run "$@" --set workload.requests=2 --set workload.output_tokens=8 --format json >result.json; }
run zipmoe-orin --system zipmoe-lru --policy-library "a folder/build/libmine.so" --set overrides.system.cache.policy=mine
grep -q '"policy_libraries"' result.json

# Nothing is written over, and nothing that is no name or no family is begun.
refused() { local status=0; "$moelab" new policy "$@" 2>said >out || status=$?; [ "$status" = 2 ] && [ ! -s out ]; }
refused cache mine --out "a folder" && grep -q "is there already; nothing was written" said
refused cahce other && grep -q "did you mean 'cache'?" said && [ ! -e other ]
refused cache "../other" && grep -q "is no name for a policy" said
