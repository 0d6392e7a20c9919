# What `cmake --install` leaves:
#   bin/pilotfish
#   lib/libpilotfish.so.0            exports what include/ declares and nothing else
#   lib/libpilotfish.a               the same objects in one archive
#   include/pilotfish.h, include/pilotfish_peer.h
#   lib/pkgconfig/pilotfish.pc
#   lib/cmake/Pilotfish/             find_package(Pilotfish) gives Pilotfish::pilotfish
#   share/man/man1/pilotfish.1
#   share/pilotfish/models/questions.jsonl   what bench acceptance takes by default
set(PF_PUBLIC_HEADERS ${CMAKE_SOURCE_DIR}/include/pilotfish.h ${CMAKE_SOURCE_DIR}/include/pilotfish_peer.h)

# The version has one place, the header; the project's must be the same.
file(STRINGS ${CMAKE_SOURCE_DIR}/include/pilotfish.h lines REGEX "define PF_API_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
string(REGEX REPLACE "[^0-9;]" "" api_version "${lines}")
list(JOIN api_version "." api_version)
if(NOT api_version STREQUAL PROJECT_VERSION)
    message(FATAL_ERROR "include/pilotfish.h has version ${api_version}, CMakeLists.txt ${PROJECT_VERSION}")
endif()

# Both libraries are made of the modules' objects, which are compiled once.
get_property(modules GLOBAL PROPERTY PF_MODULES)
list(REMOVE_ITEM modules cli bench)
set(objects "")
set(libraries "")
foreach(module IN LISTS modules)
    list(APPEND objects $<TARGET_OBJECTS:pf_${module}>)
    list(APPEND libraries pf_${module})
endforeach()
get_property(kernels GLOBAL PROPERTY PF_CUDA_OBJECTS)   # no TARGET_OBJECTS has what nvcc made
set_source_files_properties(${kernels} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
add_library(libpilotfish STATIC ${objects} ${kernels})
add_dependencies(libpilotfish pf_verify)
set_target_properties(libpilotfish PROPERTIES OUTPUT_NAME pilotfish LINKER_LANGUAGE C)
install(TARGETS libpilotfish ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

if(NOT PF_SANITIZE AND NOT PF_FUZZ)
    set(exports ${CMAKE_BINARY_DIR}/pilotfish.map)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PF_PUBLIC_HEADERS} scripts/public_symbols.py)
    execute_process(COMMAND ${PYTHON3} ${CMAKE_SOURCE_DIR}/scripts/public_symbols.py ${PF_PUBLIC_HEADERS}
                    OUTPUT_FILE ${exports} COMMAND_ERROR_IS_FATAL ANY)
    add_library(pilotfish_shared SHARED ${objects} ${kernels})
    target_link_libraries(pilotfish_shared PRIVATE ${libraries})
    target_link_options(pilotfish_shared PRIVATE LINKER:--version-script=${exports} LINKER:--no-undefined)
    target_include_directories(pilotfish_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    set_target_properties(pilotfish_shared PROPERTIES OUTPUT_NAME pilotfish EXPORT_NAME pilotfish LINKER_LANGUAGE C
                          VERSION ${PROJECT_VERSION} SOVERSION 0 LINK_DEPENDS ${exports})
    install(TARGETS pilotfish_shared EXPORT PilotfishTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

    include(CMakePackageConfigHelpers)
    set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Pilotfish)
    install(EXPORT PilotfishTargets NAMESPACE Pilotfish:: DESTINATION ${package})
    file(WRITE ${CMAKE_BINARY_DIR}/PilotfishConfig.cmake
         "include(\"\${CMAKE_CURRENT_LIST_DIR}/PilotfishTargets.cmake\")\n")
    write_basic_package_version_file(${CMAKE_BINARY_DIR}/PilotfishConfigVersion.cmake COMPATIBILITY SameMinorVersion)
    install(FILES ${CMAKE_BINARY_DIR}/PilotfishConfig.cmake ${CMAKE_BINARY_DIR}/PilotfishConfigVersion.cmake
            DESTINATION ${package})
endif()

install(FILES ${PF_PUBLIC_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# Relative to where the file itself lies, so that `cmake --install --prefix` and a moved tree work; absolute where
# the packager gave absolute folders.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(PF_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
else()
    file(RELATIVE_PATH up "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
    set(PF_PC_PREFIX "\${pcfiledir}/${up}")
endif()
foreach(which IN ITEMS LIBDIR INCLUDEDIR)
    if(IS_ABSOLUTE "${CMAKE_INSTALL_${which}}")
        set(PF_PC_${which} "${CMAKE_INSTALL_${which}}")
    else()
        set(PF_PC_${which} "\${prefix}/${CMAKE_INSTALL_${which}}")
    endif()
endforeach()
set(PF_PC_ONEDNN "")
if(PF_ONEDNN_LIBRARY)
    set(dnnl -ldnnl)
    if(PF_ONEDNN_ROOT) # where no linker looks by itself
        set(dnnl ${PF_ONEDNN_LIBRARY})
    endif()
    set(PF_PC_ONEDNN "${dnnl} -ldl ")
endif()
set(PF_PC_CUDA "")
if(PF_CUDA_BUILT)
    set(PF_PC_CUDA "${PF_CUDA_RUNTIME} -lrt -ldl ")
endif()
configure_file(${CMAKE_SOURCE_DIR}/cmake/pilotfish.pc.in ${CMAKE_BINARY_DIR}/pilotfish.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/pilotfish.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS pilotfish RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${CMAKE_SOURCE_DIR}/models/questions.jsonl DESTINATION ${CMAKE_INSTALL_DATADIR}/pilotfish/models)
install(FILES ${CMAKE_SOURCE_DIR}/docs/pilotfish.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
