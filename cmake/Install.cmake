# `cmake --install build/release --prefix DIR` makes a folder that runs on any machine with this glibc or a newer one:
#   bin/           softmax-server, softmax-client, softmax-loadgen
#   lib/softmax/   the shared libraries they need, glibc's excepted
#   share/         man pages and completions for bash and zsh, made of the programs' --help
# The programs find their libraries by a path relative to themselves, so DIR can be moved.
set(SOFTMAX_PROGRAMS softmax-server softmax-client softmax-loadgen)
set_target_properties(${SOFTMAX_PROGRAMS} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/softmax")
foreach(program IN LISTS SOFTMAX_PROGRAMS)
  # The old kind of tag also counts for what the bundled libraries need themselves.
  target_link_options(${program} PRIVATE LINKER:--disable-new-dtags)
endforeach()
install(TARGETS ${SOFTMAX_PROGRAMS} RUNTIME_DEPENDENCY_SET softmax_libraries RUNTIME DESTINATION bin)
install(RUNTIME_DEPENDENCY_SET softmax_libraries
  PRE_EXCLUDE_REGEXES "^lib(c|m|dl|rt|pthread|resolv|anl|util)\\.so" "^ld-linux" "^libcuda\\.so" "^libnvidia"
  LIBRARY DESTINATION lib/softmax)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/softmax)

# They are asked where they were built, with the libraries there.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  install(CODE "execute_process(COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/scripts/manuals.py
    \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX} $<TARGET_FILE:softmax-server> $<TARGET_FILE:softmax-client>
    $<TARGET_FILE:softmax-loadgen> COMMAND_ERROR_IS_FATAL ANY)" COMPONENT manuals)
endif()
