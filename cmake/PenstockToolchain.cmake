# Warnings, sanitizers, linker and compiler cache: one place for every target.
add_library(penstock_flags INTERFACE)
target_compile_options(penstock_flags INTERFACE -Wall -Wextra -Wpedantic -Werror -Wshadow -Wconversion
                                                -Wno-sign-conversion -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(penstock_flags INTERFACE -Wthread-safety)
endif()

# The include direction is checked before anything compiles: every target that has our flags waits for it.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
add_custom_target(check_layers ALL
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/layers.py
  COMMENT "Include direction")
add_dependencies(penstock_flags check_layers)

if(PENSTOCK_SANITIZE AND NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # At -O1 g++ looks through one half of a test's own operator new and delete, and takes malloc and free for strangers.
  target_compile_options(penstock_flags INTERFACE -Wno-mismatched-new-delete)
endif()
if(PENSTOCK_SANITIZE)
  add_compile_options(-fsanitize=${PENSTOCK_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${PENSTOCK_SANITIZE})
endif()
set(PENSTOCK_LIBFUZZER OFF)
if(PENSTOCK_FUZZ AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
  set(PENSTOCK_LIBFUZZER ON)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage counters in every room; the driver only in fuzz_*
endif()
target_include_directories(penstock_flags INTERFACE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  find_program(LLD ld.lld-14)
  if(LLD)
    add_link_options(--ld-path=${LLD})
  endif()
else()
  find_program(MOLD mold)
  if(MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()

find_package(Threads REQUIRED)
if(PENSTOCK_TESTS)
  find_package(GTest REQUIRED)
endif()
