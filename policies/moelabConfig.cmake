# find_package(moelab) for policies outside moelab: moelab::policy, and, where it was installed with it, moelab::moelab, the program.
get_filename_component(moelab_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET moelab::policy)
  add_library(moelab::policy STATIC IMPORTED)
  set_target_properties(moelab::policy PROPERTIES
    IMPORTED_LOCATION "${moelab_prefix}/lib/moelab/libmoelab_policy.a"
    INTERFACE_INCLUDE_DIRECTORIES "${moelab_prefix}/include"
    INTERFACE_COMPILE_FEATURES cxx_std_20)
endif()
find_program(moelab_program moelab HINTS "${moelab_prefix}/bin" "${moelab_prefix}/../cli" NO_CACHE)
if(moelab_program AND NOT TARGET moelab::moelab)
  add_executable(moelab::moelab IMPORTED)
  set_target_properties(moelab::moelab PROPERTIES IMPORTED_LOCATION "${moelab_program}")
endif()
