#!/usr/bin/env bash
# What policies outside moelab are compiled with has the number that policies/policy_library.hpp gives it: policies/interface has
# that number and a digest of the headers without their comments, which must be of these.
# usage: policy_interface.sh SOURCE_DIR HEADER_DIR
set -euo pipefail
number=$(sed -n 's/^inline constexpr std::uint32_t kPolicyInterface = \([0-9]*\);$/\1/p' "$1/policies/policy_library.hpp")
digest=$(LC_ALL=C cat "$2"/*.hpp | sed -e 's://.*$::' -e '/kPolicyInterface =/d' | tr -d '[:space:]' | sha256sum | cut -d' ' -f1)
if [ "$(cat "$1/policies/interface")" != "$number $digest" ]; then
  echo "The headers of policies are others than those of interface $(cat "$1/policies/interface"): raise kPolicyInterface in"
  echo "policies/policy_library.hpp by one where the last release has this number, and write into policies/interface:"
  echo "N $digest"
  exit 1
fi
