add_library(softmax_server_core STATIC
  ${CMAKE_CURRENT_LIST_DIR}/server_secrets.cc
  ${CMAKE_CURRENT_LIST_DIR}/server_faults.cc
  ${CMAKE_CURRENT_LIST_DIR}/server_grpc_log.cc
  ${CMAKE_CURRENT_LIST_DIR}/server.cc
  ${CMAKE_CURRENT_LIST_DIR}/server_info.cc)
add_library(softmax::server_core ALIAS softmax_server_core)
target_link_libraries(softmax_server_core
  PUBLIC softmax::config softmax::rpc softmax::execution softmax::metrics softmax::logging PRIVATE softmax::options)

# malloc for programs that run the server; nothing under a sanitizer, which brings its own.
add_library(softmax_receive_malloc INTERFACE)
add_library(softmax::receive_malloc ALIAS softmax_receive_malloc)
if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
  add_library(softmax_receive_malloc_object OBJECT ${CMAKE_CURRENT_LIST_DIR}/receive_malloc.cc)
  target_link_libraries(softmax_receive_malloc_object PRIVATE softmax::base softmax::options)
  # The compiler must not make a call of malloc out of malloc.
  target_compile_options(softmax_receive_malloc_object PRIVATE -fno-builtin)
  target_sources(softmax_receive_malloc INTERFACE $<TARGET_OBJECTS:softmax_receive_malloc_object>)
  target_link_libraries(softmax_receive_malloc INTERFACE softmax::base)
endif()

add_executable(softmax-server ${CMAKE_CURRENT_LIST_DIR}/main.cc)
target_link_libraries(softmax-server PRIVATE softmax::server_core softmax::receive_malloc softmax::options)
