# SPDX-License-Identifier: BSD-3-Clause
include(CMakePackageConfigHelpers)

install(TARGETS embed EXPORT embed-shared
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(TARGETS embed_static EXPORT embed-static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(DIRECTORY include/embed DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev FILES_MATCHING PATTERN "*.h")

# libembed.pc finds its prefix from where it lies: an installed tree can be moved.
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" OUTPUT_VARIABLE libdir)
file(RELATIVE_PATH up "${libdir}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" up "${up}")
set(EMBED_PC_PREFIX "\${pcfiledir}/${up}")
set(EMBED_PC_REQUIRES "")
if(EMBED_BLAS)
  set(EMBED_PC_REQUIRES "openblas")
endif()
configure_file(pkgconfig/libembed.pc.in ${PROJECT_BINARY_DIR}/libembed.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/libembed.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

# CMake: find_package(embed) gives embed::embed; COMPONENTS static gives embed::embed_static and what it needs.
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/embed)
install(EXPORT embed-shared NAMESPACE embed:: DESTINATION ${package} COMPONENT dev)
install(EXPORT embed-static NAMESPACE embed:: DESTINATION ${package} COMPONENT dev)
configure_package_config_file(cmake/embed-config.cmake.in ${PROJECT_BINARY_DIR}/embed-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/embed-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/embed-config.cmake ${PROJECT_BINARY_DIR}/embed-config-version.cmake DESTINATION ${package} COMPONENT dev)
