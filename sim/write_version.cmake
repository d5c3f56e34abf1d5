# cmake -DROOT=FOLDER -DSOURCES=FILE;FILE;.. -DVERSION=0.1.0 -DOUT=FILE -P write_version.cmake: writes sim/version.hpp's
# source. The version is the project's and the beginning of a hash over the sources, which are named from ROOT.
cmake_minimum_required(VERSION 3.25)
if(NOT SOURCES)
  message(FATAL_ERROR "no sources in ${ROOT}: expected a path without [ ] * ?")
endif()
set(hashes "")
foreach(source IN LISTS SOURCES)
  file(SHA256 ${ROOT}/${source} hash)
  string(APPEND hashes "${source} ${hash}\n")
endforeach()
string(SHA256 all "${hashes}")
string(SUBSTRING ${all} 0 8 begin)
file(WRITE ${OUT} "#include \"sim/version.hpp\"

const std::string& moelab::program_version() {
  static const std::string kVersion = \"${VERSION}+${begin}\";
  return kVersion;
}
")
