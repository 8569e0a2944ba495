# penstock_room(core SOURCES a.cc TESTS a_test.cc DEPS base LIBS xxhash::xxhash)
# A room is one folder under src/: one static library, one test binary. Every x_test.cc must stand in TESTS
# (lint compares the folder with the list). LIBS are private to the room; TEST_LIBS only to its tests.
# Rooms without a thread, a lock or shared state: the thread sanitizer has nothing to see in their tests.
set(PENSTOCK_PURE_ROOMS core resp http policy)

function(penstock_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;TESTS;DEPS;LIBS;TEST_LIBS" ${ARGN})
  add_library(penstock_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(penstock_${name} PUBLIC penstock_flags)
  foreach(dep ${ROOM_DEPS})
    target_link_libraries(penstock_${name} PUBLIC penstock_${dep})
  endforeach()
  target_link_libraries(penstock_${name} PRIVATE ${ROOM_LIBS})
  if(PENSTOCK_SANITIZE MATCHES thread AND name IN_LIST PENSTOCK_PURE_ROOMS)
    return()
  endif()
  if(PENSTOCK_TESTS AND ROOM_TESTS)
    add_executable(${name}_test ${ROOM_TESTS})
    target_link_libraries(${name}_test PRIVATE penstock_${name} GTest::gtest_main ${ROOM_TEST_LIBS})
    add_test(NAME ${name} COMMAND ${name}_test --gtest_brief=1)
    set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 600)
  endif()
endfunction()
