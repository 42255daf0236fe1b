# Bad requests as data, for these tests and for those that send them through a live server.
add_library(softmax_test_malformed STATIC
  ${CMAKE_SOURCE_DIR}/tests/support/malformed.cc
  ${CMAKE_SOURCE_DIR}/tests/support/malformed_contract.cc)
target_link_libraries(softmax_test_malformed PUBLIC softmax::options)

softmax_test(NAME wire_decode_test LABELS pure
             SOURCES ${CMAKE_CURRENT_LIST_DIR}/wire_decode_test.cc
                     ${CMAKE_CURRENT_LIST_DIR}/counting_new.cc
             LIBS softmax::wire)
softmax_test(NAME wire_stream_test LABELS pure
             SOURCES ${CMAKE_CURRENT_LIST_DIR}/wire_stream_test.cc
             LIBS softmax::wire)
softmax_test(NAME wire_malformed_test LABELS pure
             SOURCES ${CMAKE_CURRENT_LIST_DIR}/wire_malformed_test.cc
             LIBS softmax::wire softmax_test_malformed)
if(NOT SOFTMAX_PURE_ONLY)
  softmax_test(NAME wire_encode_test
               SOURCES ${CMAKE_CURRENT_LIST_DIR}/wire_encode_test.cc
               LIBS softmax::wire softmax::proto)
  softmax_test(NAME wire_differential_test
               SOURCES ${CMAKE_CURRENT_LIST_DIR}/wire_differential_test.cc
                       ${CMAKE_CURRENT_LIST_DIR}/contract_model.cc
               LIBS softmax::wire softmax::proto)
endif()
