# The commit is looked up when CMake runs, and CMake runs again after each commit. Set SOFTMAX_COMMIT where there is no
# checkout (an image build).
set(SOFTMAX_COMMIT "" CACHE STRING "The commit to report; empty: asked of git")
set(softmax_commit "${SOFTMAX_COMMIT}")
if(NOT softmax_commit)
  execute_process(COMMAND git rev-parse --short=12 HEAD WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                  OUTPUT_VARIABLE softmax_commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE rc)
  if(NOT rc EQUAL 0)
    set(softmax_commit unknown)
  endif()
  if(EXISTS ${PROJECT_SOURCE_DIR}/.git/logs/HEAD)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/.git/logs/HEAD)
  endif()
endif()
