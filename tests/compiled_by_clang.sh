#!/bin/sh
# What g++ is asked to compile is compiled by clang++: tests in the release build, as tests/CMakeLists.txt says.
# usage: compiled_by_clang.sh CLANG COMPILER ARGUMENT...
set -eu
clang=$1
shift 2
previous=
for argument; do  # precompiled headers are made from nothing: clang++ would build upon the one that is there
  case $previous$argument in -o*.gch) rm -f -- "$argument" ;; esac
  previous=$argument
done
exec "$clang" "$@" -Qunused-arguments -Wno-unknown-warning-option -Wno-sign-conversion
