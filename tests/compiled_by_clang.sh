#!/bin/sh
# What g++ is asked to compile is compiled by clang++: tests in the release build, as tests/CMakeLists.txt says.
# usage: compiled_by_clang.sh COMPILER ARGUMENT...
shift
exec clang++ "$@" -Wno-unknown-warning-option -Wno-sign-conversion
