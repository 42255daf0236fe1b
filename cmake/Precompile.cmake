# Headers that are compiled once for many sources: GoogleTest, abseil's status and gRPC are most of what compiling a
# source costs here (2 to 3 s each).
option(SOFTMAX_PRECOMPILE "Precompile the headers of GoogleTest, abseil and gRPC" ON)

# softmax_precompile(target [header...] [FROM other]): these headers, or those of a target with the same flags.
function(softmax_precompile target)
  cmake_parse_arguments(arg "" "FROM" "" ${ARGN})
  if(NOT SOFTMAX_PRECOMPILE)
    return()
  endif()
  if(arg_FROM)
    target_precompile_headers(${target} REUSE_FROM ${arg_FROM})
  else()
    target_precompile_headers(${target} PRIVATE ${arg_UNPARSED_ARGUMENTS})
  endif()
  # So that ccache can tell what a source saw of them.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # g++ 12 forgets which precompiled headers are the system's, and warns of what it only supposes in them.
    target_compile_options(${target} PRIVATE -fpch-preprocess -Wno-array-bounds -Wno-stringop-overflow
                                             -Wno-stringop-overread)
  else()
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()
