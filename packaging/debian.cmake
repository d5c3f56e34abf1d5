# A Debian package of what is installed: `cpack -G DEB` in a build folder whose targets are all built makes moelab_VERSION_ARCH.deb.
# It has the program, its manual pages, completions and schemas, and what policies outside moelab are compiled with. It needs
# dpkg-dev and file (install_dependencies.sh package), and is for the Debian or Ubuntu that it was built on.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME moelab)
set(CPACK_PACKAGE_VENDOR "The moelab developers")
set(CPACK_PACKAGE_CONTACT "The moelab developers <moelab@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_DESCRIPTION "A discrete-event simulator of Mixture-of-Experts models that are larger than the memory of the device that
serves them, with policies for what is cached in which form, in which order experts are loaded and
decompressed, what is fetched ahead and how memory is split.")
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};moelab;Unspecified;/")  # without the Python package
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian_places.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "g++, cmake")  # for policies of one's own
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
include(CPack)
