#!/bin/sh
# What g++ is asked to compile is compiled by clang++: tests in the release build, as tests/CMakeLists.txt says.
# usage: compiled_by_clang.sh CLANG COMPILER ARGUMENT...
clang=$1
shift 2
exec "$clang" "$@" -Wno-unknown-warning-option -Wno-sign-conversion
