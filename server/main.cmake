add_library(softmax_server_core STATIC
  ${CMAKE_CURRENT_LIST_DIR}/server_secrets.cc
  ${CMAKE_CURRENT_LIST_DIR}/server_faults.cc
  ${CMAKE_CURRENT_LIST_DIR}/server_grpc_log.cc
  ${CMAKE_CURRENT_LIST_DIR}/server.cc
  ${CMAKE_CURRENT_LIST_DIR}/server_info.cc)
add_library(softmax::server_core ALIAS softmax_server_core)
target_link_libraries(softmax_server_core
  PUBLIC softmax::config softmax::rpc softmax::execution softmax::metrics softmax::logging PRIVATE softmax::options)

add_executable(softmax-server ${CMAKE_CURRENT_LIST_DIR}/main.cc)
target_link_libraries(softmax-server PRIVATE softmax::server_core softmax::options)
