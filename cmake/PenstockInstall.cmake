# penstock_install(penstock_shared): everything that `cmake --install` lays down for a program that embeds Penstock.
# The target becomes libpenstock.so and, to users, penstock::penstock: its own parts must be linked PRIVATE, so that
# nothing but the headers of include/penstock and the standard library reaches a user. find_package(penstock) and
# pkg-config penstock both work from the install prefix, wherever it is moved to.
include(CMakePackageConfigHelpers)

function(penstock_install library)
  set_target_properties(${library} PROPERTIES
    OUTPUT_NAME penstock
    EXPORT_NAME penstock
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})  # before 1.0 every minor version may break
  target_compile_features(${library} INTERFACE cxx_std_20)
  target_include_directories(${library} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

  install(TARGETS ${library} EXPORT penstockTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT penstock)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/penstock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    COMPONENT penstock FILES_MATCHING PATTERN "*.h")

  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)
  install(EXPORT penstockTargets NAMESPACE penstock:: DESTINATION ${package_dir} COMPONENT penstock)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/penstockConfig.cmake.in
    ${PROJECT_BINARY_DIR}/penstockConfig.cmake INSTALL_DESTINATION ${package_dir})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/penstockConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/penstockConfig.cmake ${PROJECT_BINARY_DIR}/penstockConfigVersion.cmake
    DESTINATION ${package_dir} COMPONENT penstock)

  # The prefix is written relative to the .pc file, so that an installed tree can be moved.
  file(RELATIVE_PATH PENSTOCK_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/penstock.pc.in ${PROJECT_BINARY_DIR}/penstock.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/penstock.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT penstock)
endfunction()
