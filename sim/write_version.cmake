# cmake -DROOT=... -DVERSION=0.1.0 -DOUT=... -P write_version.cmake: writes sim/version.hpp's source. The version is the
# project's and the beginning of a hash over the sources that decide what a run gives.
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE sources RELATIVE ${ROOT} ${ROOT}/models/*.[ch]pp ${ROOT}/traces/*.[ch]pp ${ROOT}/policies/*.[ch]pp
     ${ROOT}/sim/*.[ch]pp)
if(NOT sources)
  message(FATAL_ERROR "no sources in ${ROOT}: expected a path without [ ] * ?")
endif()
list(SORT sources)
set(hashes "")
foreach(source IN LISTS sources)
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
