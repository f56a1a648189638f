# SPDX-License-Identifier: BSD-3-Clause
include(CMakePackageConfigHelpers)

install(TARGETS embed EXPORT embed-shared
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(TARGETS embed_static EXPORT embed-static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(DIRECTORY include/embed DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")

# libembed.pc finds its prefix from where it lies: an installed tree can be moved. Absolute folders of a packager stay as they are.
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" OUTPUT_VARIABLE libdir)
file(RELATIVE_PATH up "${libdir}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" up "${up}")
set(EMBED_PC_PREFIX "\${pcfiledir}/${up}")
foreach(dir LIBDIR INCLUDEDIR)
  set(EMBED_PC_${dir} "${CMAKE_INSTALL_${dir}}")
  cmake_path(IS_ABSOLUTE EMBED_PC_${dir} absolute)
  if(NOT absolute)
    set(EMBED_PC_${dir} "\${prefix}/${EMBED_PC_${dir}}")
  endif()
endforeach()
set(EMBED_PC_REQUIRES "")
if(EMBED_BLAS)
  list(APPEND EMBED_PC_REQUIRES openblas)
endif()
if(EMBED_ZLIB)
  list(APPEND EMBED_PC_REQUIRES zlib)
endif()
list(JOIN EMBED_PC_REQUIRES ", " EMBED_PC_REQUIRES)
configure_file(pkgconfig/libembed.pc.in ${PROJECT_BINARY_DIR}/libembed.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/libembed.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

# CMake: find_package(embed) gives embed::embed; COMPONENTS static gives embed::embed_static and what it needs.
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/embed)
install(EXPORT embed-shared NAMESPACE embed:: DESTINATION ${package} COMPONENT dev)
install(EXPORT embed-static NAMESPACE embed:: DESTINATION ${package} COMPONENT dev)
configure_package_config_file(cmake/embed-config.cmake.in ${PROJECT_BINARY_DIR}/embed-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/embed-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/embed-config.cmake ${PROJECT_BINARY_DIR}/embed-config-version.cmake DESTINATION ${package} COMPONENT dev)

# The man page, where scdoc is at hand.
find_program(EMBED_SCDOC scdoc)
if(EMBED_CLI AND EMBED_SCDOC)
  set(manual ${PROJECT_BINARY_DIR}/embed.1)
  add_custom_command(OUTPUT ${manual} COMMAND sh ${PROJECT_SOURCE_DIR}/cmake/manual.sh ${EMBED_SCDOC} ${PROJECT_SOURCE_DIR}/src/cli/embed.1.scd ${manual}
                     ${PROJECT_VERSION}
                     DEPENDS src/cli/embed.1.scd cmake/manual.sh VERBATIM)
  add_custom_target(manual ALL DEPENDS ${manual})
  install(FILES ${manual} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
endif()
