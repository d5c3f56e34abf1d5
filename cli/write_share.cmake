# Has the program PROGRAM write what it installs below SHARE.
file(REMOVE_RECURSE ${SHARE})
unset(ENV{MOELAB_POLICY_PATH})  # policies of the builder's own are no part of it
function(written_by_program file)  # written_by_program(FILE ARGUMENTS...): what it prints
  get_filename_component(folder ${SHARE}/${file} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_FILE ${SHARE}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
written_by_program(bash-completion/completions/moelab completion bash)
written_by_program(zsh/site-functions/_moelab completion zsh)
written_by_program(fish/vendor_completions.d/moelab.fish completion fish)
foreach(pages "man;--out;${SHARE}/man/man1" "schema;--out;${SHARE}/moelab/schemas")
  execute_process(COMMAND ${PROGRAM} ${pages} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
