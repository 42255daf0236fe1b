# softmax::config: flags, environment and config file; softmax::logging: spdlog set up.
find_package(CLI11 REQUIRED)
find_package(spdlog REQUIRED)

# The commit is looked up when CMake runs, and CMake runs again after each commit. Set SOFTMAX_COMMIT where there is no
# checkout (an image build).
set(SOFTMAX_COMMIT "" CACHE STRING "The commit to report; empty: asked of git")
set(softmax_root ${CMAKE_CURRENT_LIST_DIR}/..)
set(softmax_commit "${SOFTMAX_COMMIT}")
if(NOT softmax_commit)
  execute_process(COMMAND git rev-parse --short=12 HEAD WORKING_DIRECTORY ${softmax_root}
                  OUTPUT_VARIABLE softmax_commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE rc)
  if(NOT rc EQUAL 0)
    set(softmax_commit unknown)
  endif()
  if(EXISTS ${softmax_root}/.git/logs/HEAD)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${softmax_root}/.git/logs/HEAD)
  endif()
endif()

add_library(softmax_config STATIC
  ${CMAKE_CURRENT_LIST_DIR}/config.cc ${CMAKE_CURRENT_LIST_DIR}/config_check.cc
  ${CMAKE_CURRENT_LIST_DIR}/config_flags.cc ${CMAKE_CURRENT_LIST_DIR}/config_print.cc
  ${CMAKE_CURRENT_LIST_DIR}/config_security.cc
  ${CMAKE_CURRENT_LIST_DIR}/config_values.cc)
add_library(softmax::config ALIAS softmax_config)
target_link_libraries(softmax_config PUBLIC softmax::grpc PRIVATE softmax::options CLI11::CLI11)
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/config_print.cc PROPERTIES COMPILE_DEFINITIONS
  "SOFTMAX_VERSION=\"${PROJECT_VERSION}\";SOFTMAX_COMMIT=\"${softmax_commit}\"")

# Debian's spdlog target would link libspdlog and libfmt as shared objects (it has no static ones); both are used as
# headers only, by this one file.
add_library(softmax_logging STATIC ${CMAKE_CURRENT_LIST_DIR}/logging.cc)
add_library(softmax::logging ALIAS softmax_logging)
target_compile_definitions(softmax_logging PRIVATE SPDLOG_HEADER_ONLY FMT_HEADER_ONLY)
target_link_libraries(softmax_logging PUBLIC softmax::grpc PRIVATE softmax::options)
