include(GoogleTest)
find_package(GTest REQUIRED)

# softmax_test(NAME name SOURCES ... LIBS ... [LABELS ...] [TIMEOUT s]): one gtest binary, one ctest entry per binary.
# Labels: ci (default), pure (also run under TSan: links no gRPC), gpu (needs a GPU), long.
function(softmax_test)
  cmake_parse_arguments(arg "" "NAME;TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS ci)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS} GTest::gtest GTest::gmock GTest::gtest_main softmax::options)
  add_test(NAME ${arg_NAME} COMMAND ${arg_NAME})
  # A gtest binary that skips everything (no GPU here) says so and ctest shows it as skipped.
  set_tests_properties(${arg_NAME} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
                       SKIP_REGULAR_EXPRESSION "SKIPPED: no GPU")
  if("gpu" IN_LIST arg_LABELS)
    set_tests_properties(${arg_NAME} PROPERTIES RESOURCE_LOCK gpu)
  endif()
endfunction()
