# What is to be packed, moved to where Debian has it: zsh's completion, packed manual pages, the licence.
set(usr ${CPACK_TEMPORARY_DIRECTORY}${CPACK_PACKAGING_INSTALL_PREFIX})
file(RENAME ${usr}/share/zsh/site-functions ${usr}/share/zsh/vendor-completions)
file(GLOB pages ${usr}/share/man/man1/*.1)
execute_process(COMMAND gzip -9n ${pages} COMMAND_ERROR_IS_FATAL ANY)
configure_file(${CPACK_RESOURCE_FILE_LICENSE} ${usr}/share/doc/moelab/copyright COPYONLY)
