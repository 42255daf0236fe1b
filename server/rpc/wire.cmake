# softmax::wire: the hand-written decoder and encoder. Links no gRPC and no protobuf, so that it can be judged by every
# sanitizer and fuzzed alone.
find_package(PkgConfig REQUIRED)
pkg_check_modules(SOFTMAX_ABSL_STATUS REQUIRED absl_status)
add_library(softmax_wire STATIC
  ${CMAKE_CURRENT_LIST_DIR}/wire_contract.cc
  ${CMAKE_CURRENT_LIST_DIR}/wire_cursor.cc
  ${CMAKE_CURRENT_LIST_DIR}/wire_decode.cc
  ${CMAKE_CURRENT_LIST_DIR}/wire_encode.cc
  ${CMAKE_CURRENT_LIST_DIR}/wire_fault.cc
  ${CMAKE_CURRENT_LIST_DIR}/wire_walk.cc)
add_library(softmax::wire ALIAS softmax_wire)
target_link_libraries(softmax_wire PUBLIC softmax::base PRIVATE softmax::options)
if(SOFTMAX_STATIC)
  # Everything of abseil comes with softmax::grpc, in one group.
  target_link_libraries(softmax_wire PUBLIC softmax::grpc)
else()
  target_link_libraries(softmax_wire PUBLIC ${SOFTMAX_ABSL_STATUS_LIBRARIES})
endif()
