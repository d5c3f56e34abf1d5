#!/usr/bin/env bash
# `moelab new policy` for each family, from the program as it is installed and away from its sources and its build: what it writes
# compiles without a warning, keeps its family's rules, and runs in a scenario.
# The commands of policies/README.md and of the families' pages work as they stand there.
# usage: new_policy.sh CMAKE BUILD_DIR CXX SOURCE_DIR
set -euo pipefail
command -v make >/dev/null || export CMAKE_GENERATOR=Ninja  # CMake's own choice is make
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$1" --install "$2" --prefix "$scratch/moelab" --component Unspecified >/dev/null
mv "$scratch/moelab" "$scratch/moved"
moelab=$scratch/moved/bin/moelab
cd "$scratch"
ls moved/include/moelab/policy/policy_library.hpp >/dev/null

# As policies/README.md and the pages of the families say.
"$4/tests/policy_pages.py" program "$4" "$moelab"

# What `moelab new policy` says to type, in a folder whose name needs quotes.
"$moelab" new policy routing mine --out "a folder" >said
bash -c "$(sed -n 's/^compile:  //p' said)" >/dev/null
bash -c "$(sed -n 's/^check:    //p' said)" >/dev/null

# Each family, by the compiler alone.
compile() {  # compile FAMILY
  "$moelab" new policy "$1" "my-$1" --out "$1" >/dev/null
  "$2" -std=c++20 -O1 -shared -fPIC -Wall -Wextra -Werror -Imoved/include "$1/my-$1.cpp" moved/lib/moelab/libmoelab_policy.a -o "$1/libmy-$1.so"
  "$moelab" check-policy "my-$1" --policy-library "$1/libmy-$1.so" | grep -q "every rule held"
}
export -f compile
export moelab
families=$(ls moved/share/moelab/templates/*.cpp.in | xargs -n1 basename -s .cpp.in)
[ "$(echo "$families" | wc -l)" = 11 ]
echo "$families" | xargs -P 2 -I{} bash -ec "compile {} '$3'"

# Nothing is written over, and nothing that is no name or no family is begun.
refused() { local status=0; "$moelab" new policy "$@" 2>said >out || status=$?; [ "$status" = 2 ] && [ ! -s out ]; }
refused routing mine --out "a folder" && grep -q "is there already; nothing was written" said
refused cahce other && grep -q "did you mean 'cache'?" said && [ ! -e other ]
refused cache "../other" && grep -q "is no name for a policy" said
