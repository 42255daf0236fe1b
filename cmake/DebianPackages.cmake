# `cpack` in a build folder with softmax-server, softmax-client, softmax-loadgen, softmax_client and softmax_client_c
# built makes four packages for the release of Debian that it runs on:
#   softmax-server          the server, its unit for systemd, user, config file, man page, completions
#   softmax-client          softmax-client and softmax-loadgen, with the same
#   libsoftmax-client1      the client library in C, for programs in any language
#   libsoftmax-client-dev   what builds with that, and the C++ client library with its headers
# They depend on the distribution's libraries (dpkg-shlibdeps) and bring none.
set(unit_files ${PROJECT_SOURCE_DIR}/deploy/debian)

# softmax_debian_programs(component program...): with what their --help makes. It is asked where they were built.
function(softmax_debian_programs component)
  install(TARGETS ${ARGN} RUNTIME DESTINATION bin COMPONENT ${component} EXCLUDE_FROM_ALL)
  list(TRANSFORM ARGN REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
  list(JOIN files " " files)
  install(CODE "execute_process(COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/scripts/manuals.py
    \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX} ${files} COMMAND_ERROR_IS_FATAL ANY)"
    COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/${component} RENAME copyright
          COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()
softmax_debian_programs(softmax-server softmax-server)
softmax_debian_programs(softmax-client softmax-client softmax-loadgen)
foreach(place IN ITEMS softmax-server.service:/lib/systemd/system/softmax-server.service
                       softmax-server.sysusers:/usr/lib/sysusers.d/softmax-server.conf
                       softmax-server.toml:/etc/softmax-server/softmax-server.toml)
  string(REPLACE ":" ";" place ${place})
  list(GET place 1 target)
  list(GET place 0 source)
  get_filename_component(folder ${target} DIRECTORY)
  get_filename_component(name ${target} NAME)
  install(FILES ${unit_files}/${source} DESTINATION ${folder} RENAME ${name} COMPONENT softmax-server EXCLUDE_FROM_ALL)
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL softmax-server softmax-client library client)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_SET_DESTDIR ON)  # files outside of the prefix
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # the tests need not be built
set(CPACK_PACKAGE_CONTACT "the authors of softmax-server <softmax-server@localhost>")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_SOFTMAX-SERVER_PACKAGE_NAME softmax-server)
set(CPACK_DEBIAN_SOFTMAX-CLIENT_PACKAGE_NAME softmax-client)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libsoftmax-client1)
set(CPACK_DEBIAN_CLIENT_PACKAGE_NAME libsoftmax-client-dev)
set(CPACK_COMPONENT_SOFTMAX-SERVER_DESCRIPTION "softmax over gRPC, in batches, on NVIDIA GPUs or the CPU")
set(CPACK_COMPONENT_SOFTMAX-CLIENT_DESCRIPTION "client and load generator for softmax-server")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "client library of softmax-server in C, for programs in any language")
set(CPACK_COMPONENT_CLIENT_DESCRIPTION "client library of softmax-server: C and C++, to build with")
set(CPACK_DEBIAN_SOFTMAX-SERVER_PACKAGE_DEPENDS "init-system-helpers")
set(CPACK_DEBIAN_SOFTMAX-SERVER_PACKAGE_PREDEPENDS "passwd")
set(CPACK_DEBIAN_SOFTMAX-SERVER_PACKAGE_CONTROL_EXTRA
    "${unit_files}/postinst;${unit_files}/prerm;${unit_files}/postrm;${unit_files}/conffiles")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_CLIENT_PACKAGE_DEPENDS
    "libsoftmax-client1 (= ${PROJECT_VERSION}), libgrpc++-dev, libabsl-dev, libprotobuf-dev")
set(CPACK_DEBIAN_CLIENT_PACKAGE_SECTION libdevel)
include(CPack)
