softmax_test(NAME config_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/config_test.cc LIBS softmax::config)
softmax_test(NAME config_check_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/config_check_test.cc LIBS softmax::config)
softmax_test(NAME logging_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/logging_test.cc LIBS softmax::logging)
softmax_test(NAME config_security_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/config_security_test.cc LIBS softmax::config)
