include(GoogleTest)
find_package(GTest REQUIRED)

# The checks of UndefinedBehaviorSanitizer that look at every pointer double the time that a source takes to compile.
# Tests do without them: AddressSanitizer sees most such faults, and what they test is compiled with all checks.
set(softmax_test_options -O1 -g1)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=[a-z,]*undefined")
  list(APPEND softmax_test_options -fno-sanitize=null,alignment,object-size,vptr)
endif()

# What every test program has.
add_library(softmax_own_temp_dir OBJECT ${PROJECT_SOURCE_DIR}/tests/support/own_temp_dir.cc)
target_link_libraries(softmax_own_temp_dir PRIVATE softmax::options)

# softmax_test_program(name [SEPARATE] SOURCES ... LIBS ...): the GoogleTest program of one module. Its headers come
# precompiled, and it is compiled for a short build: a test's own speed matters nowhere.
# SEPARATE: its sources use one name for several things, so they are never compiled together (CMAKE_UNITY_BUILD).
function(softmax_test_program name)
  cmake_parse_arguments(arg "SEPARATE" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_compile_options(${name} PRIVATE ${softmax_test_options})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} softmax_own_temp_dir GTest::gtest GTest::gmock GTest::gtest_main
                                        softmax::options)
  softmax_precompile(${name} FROM softmax_test_headers)
  if(arg_SEPARATE)
    set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  endif()
endfunction()

# Never linked: owns the precompiled headers of all test programs.
add_executable(softmax_test_headers EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/empty.cc)
target_compile_options(softmax_test_headers PRIVATE ${softmax_test_options})
target_link_libraries(softmax_test_headers PRIVATE GTest::gtest GTest::gmock softmax::options)
softmax_precompile(softmax_test_headers <gmock/gmock.h> <gtest/gtest.h> <absl/status/statusor.h>)

# softmax_test(name PROGRAM program [FILTER gtest-filter] [SHARDS n] [SERIAL] [LABELS ...] [TIMEOUT s]
#              [ENVIRONMENT ...]): what ctest runs of a program, all of it or what the filter says, in n parts.
# Labels: ci (default), pure (also run under ThreadSanitizer: links no gRPC), depth (only in `test.sh --all`), gpu.
# SERIAL: nothing runs beside it, because it measures time.
function(softmax_test name)
  cmake_parse_arguments(arg "SERIAL" "PROGRAM;FILTER;SHARDS;TIMEOUT" "LABELS;ENVIRONMENT" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS ci)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  set(command ${arg_PROGRAM})
  if(arg_FILTER)
    list(APPEND command --gtest_filter=${arg_FILTER})
  endif()
  math(EXPR last "${arg_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(entry ${name})
    set(environment ${arg_ENVIRONMENT})
    if(arg_SHARDS GREATER 1)
      math(EXPR number "${shard} + 1")
      set(entry ${name}_${number})
      list(APPEND environment GTEST_TOTAL_SHARDS=${arg_SHARDS} GTEST_SHARD_INDEX=${shard})
    endif()
    add_test(NAME ${entry} COMMAND ${command})
    # A program that skips everything (no GPU here) says so, and ctest shows it as skipped.
    set_tests_properties(${entry} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
                         SKIP_REGULAR_EXPRESSION "SKIPPED: no GPU" ENVIRONMENT "${environment}")
    # The long ones start first, or one core waits for the last of them. In a fresh build ctest knows no times.
    if(arg_TIMEOUT GREATER 600)
      set_tests_properties(${entry} PROPERTIES COST ${arg_TIMEOUT})
    endif()
    if(arg_SERIAL)
      set_tests_properties(${entry} PROPERTIES RUN_SERIAL ON)
    endif()
    if("gpu" IN_LIST arg_LABELS)
      set_tests_properties(${entry} PROPERTIES RESOURCE_LOCK gpu)
    endif()
  endforeach()
endfunction()

# softmax_script_test(name COMMAND ... [LABELS ...] [TIMEOUT s] [SERIAL]): a test in Python; exit code 77: skipped.
function(softmax_script_test name)
  cmake_parse_arguments(arg "SERIAL" "TIMEOUT" "COMMAND;LABELS" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS ci)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME ${name} COMMAND Python3::Interpreter -B ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77)
  if(arg_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

# What only tests of the label depth and people who measure need: built by the target `depth`, not by `all`.
add_custom_target(depth)
function(softmax_depth_program)
  foreach(name IN LISTS ARGN)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(depth ${name})
  endforeach()
endfunction()
