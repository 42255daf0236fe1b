# softmax::grpc: gRPC, protobuf and abseil of the distribution, by pkg-config.
#
# SOFTMAX_STATIC links them (and OpenSSL, c-ares, re2, zlib) statically, so that one binary runs on any x86-64 glibc
# at least as new as the builder's; glibc itself stays dynamic (its resolver and the CUDA driver need dlopen).
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(GRPC REQUIRED grpc++ protobuf)
find_program(SOFTMAX_PROTOC protoc REQUIRED)
find_program(SOFTMAX_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)

add_library(softmax_grpc INTERFACE)
add_library(softmax::grpc ALIAS softmax_grpc)
if(SOFTMAX_STATIC)
  # Where re2 needs abseil's log libraries (Debian 13), gRPC's file does not say so.
  pkg_check_modules(RE2 REQUIRED re2)
  set(libs ${GRPC_STATIC_LIBRARIES} ${RE2_STATIC_LIBRARIES})
  list(REMOVE_DUPLICATES libs)  # the order does not matter inside --start-group
  list(REMOVE_ITEM libs dl rt pthread atomic)
  target_link_options(softmax_grpc INTERFACE -static-libstdc++ -static-libgcc LINKER:--gc-sections)
  target_link_libraries(softmax_grpc INTERFACE -Wl,-Bstatic -Wl,--start-group ${libs}
                                               -Wl,--end-group -Wl,-Bdynamic dl rt Threads::Threads)
else()
  target_link_libraries(softmax_grpc INTERFACE ${GRPC_LIBRARIES} Threads::Threads)
endif()
# re2, which gRPC's packages bring; inside the static group it is there already.
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)
add_library(softmax_re2 INTERFACE)
target_link_libraries(softmax_re2 INTERFACE $<IF:$<BOOL:${SOFTMAX_STATIC}>,softmax::grpc,PkgConfig::RE2>)
# absl libraries used directly by our code; inside the static group they are there already.
