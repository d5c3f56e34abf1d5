# Writes the C++ source that holds the files of configs/ (models/embedded_configs.hpp).
#   cmake -DROOT=<source folder> -DLIST=<file with one path a line, relative to ROOT> -DOUTPUT=<source to write>
#         -P embed_configs.cmake
# Every byte becomes a character literal of its own: no escaping rules and no limit on a literal's length to get
# wrong.
cmake_minimum_required(VERSION 3.25)

file(STRINGS "${LIST}" names)
list(SORT names COMPARE STRING)
set(arrays "")
set(rows "")
set(number 0)
foreach(name IN LISTS names)
  if(NOT name MATCHES "^configs/[a-z0-9_-]+/[A-Za-z0-9._-]+\\.yaml$")
    message(FATAL_ERROR "configs: '${name}' is not named as configurations are (letters, digits, '.', '_', '-')")
  endif()
  file(READ "${ROOT}/${name}" bytes HEX)
  string(LENGTH "${bytes}" size)
  math(EXPR size "${size} / 2")
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
  # The closing zero keeps the array of an empty file legal.
  string(APPEND arrays "constexpr char text_${number}[] = {${bytes}'\\0'};\n")
  string(APPEND rows "    EmbeddedConfig{\"${name}\", {text_${number}, ${size}}},\n")
  math(EXPR number "${number} + 1")
endforeach()

file(WRITE "${OUTPUT}" "// Written by models/embed_configs.cmake from configs/.
#include \"models/embedded_configs.hpp\"

#include <array>

namespace moelab {
namespace {
${arrays}
constexpr std::array<EmbeddedConfig, ${number}> configs{
${rows}};
}  // namespace

std::span<const EmbeddedConfig> embedded_configs() {
  return configs;
}
}  // namespace moelab
")
