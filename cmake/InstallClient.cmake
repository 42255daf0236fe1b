# The client library for other people's builds, as a component of its own, because the server's image needs none of it:
#   cmake --install build/release --component client --prefix DIR
#     include/softmax/client/   the public headers; neither gRPC nor protobuf is in them
#     lib/libsoftmax_client.a   links the system's gRPC
#     lib/cmake/softmax/        find_package(softmax CONFIG), target softmax::client
#     lib/pkgconfig/            softmax-client
# and the same in C, for other languages: softmax.h, lib/libsoftmax_client.so, softmax-client-c. What programs then run
# with, lib/libsoftmax_client.so.1, is the component `library`.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

get_target_property(headers softmax_client SOFTMAX_PUBLIC_HEADERS)
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/softmax/client COMPONENT client EXCLUDE_FROM_ALL)
install(TARGETS softmax_client ARCHIVE DESTINATION lib COMPONENT client EXCLUDE_FROM_ALL)

set(out ${PROJECT_BINARY_DIR}/package)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/softmaxConfig.cmake.in ${out}/softmaxConfig.cmake
                              INSTALL_DESTINATION lib/cmake/softmax)
write_basic_package_version_file(${out}/softmaxConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${out}/softmaxConfig.cmake ${out}/softmaxConfigVersion.cmake DESTINATION lib/cmake/softmax
        COMPONENT client EXCLUDE_FROM_ALL)
configure_file(${CMAKE_CURRENT_LIST_DIR}/softmax-client.pc.in ${out}/softmax-client.pc @ONLY)
install(FILES ${out}/softmax-client.pc DESTINATION lib/pkgconfig COMPONENT client EXCLUDE_FROM_ALL)

if(TARGET softmax_client_c)
  set_target_properties(softmax_client_c PROPERTIES INSTALL_RPATH "")
  install(TARGETS softmax_client_c LIBRARY DESTINATION lib COMPONENT library NAMELINK_COMPONENT client EXCLUDE_FROM_ALL)
  install(FILES ${PROJECT_SOURCE_DIR}/client/c/softmax.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/softmax
          COMPONENT client EXCLUDE_FROM_ALL)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/softmax-client-c.pc.in ${out}/softmax-client-c.pc @ONLY)
  install(FILES ${out}/softmax-client-c.pc DESTINATION lib/pkgconfig COMPONENT client EXCLUDE_FROM_ALL)
endif()
