# The client's rules, which need no gRPC.
softmax_test(NAME client_retry_rules_test LABELS pure
             SOURCES ${CMAKE_CURRENT_LIST_DIR}/retry_rules_test.cc ${CMAKE_CURRENT_LIST_DIR}/target_test.cc
                     ${CMAKE_CURRENT_LIST_DIR}/known_server_test.cc
             LIBS softmax::client_pure)
