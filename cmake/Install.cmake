# What `cmake --install` leaves:
#   bin/pilotfish
#   lib/libpilotfish.a               all modules in one archive
#   include/pilotfish/engine/*.h     the public face, and below include/pilotfish/ the headers that it includes
#   lib/pkgconfig/pilotfish.pc
#   share/man/man1/pilotfish.1
#   share/pilotfish/models/prompts.txt   what bench acceptance takes by default
set(PF_PUBLIC_HEADERS engine/pilotfish.h engine/connect.h engine/serve_peer.h)

# What these include from the tree, and what that includes.
function(pf_header_closure out)
    set(found "")
    set(pending ${ARGN})
    while(pending)
        list(POP_FRONT pending header)
        if(header IN_LIST found OR NOT EXISTS ${CMAKE_SOURCE_DIR}/${header})
            continue()
        endif()
        list(APPEND found ${header})
        set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${header})
        file(STRINGS ${CMAKE_SOURCE_DIR}/${header} lines REGEX "^#include \"")
        foreach(line IN LISTS lines)
            string(REGEX REPLACE "^#include \"([^\"]*)\".*" "\\1" included "${line}")
            list(APPEND pending ${included})
        endforeach()
    endwhile()
    set(${out} ${found} PARENT_SCOPE)
endfunction()

get_property(modules GLOBAL PROPERTY PF_MODULES)
list(REMOVE_ITEM modules cli bench)
add_library(libpilotfish STATIC)
foreach(module IN LISTS modules)
    target_sources(libpilotfish PRIVATE $<TARGET_OBJECTS:pf_${module}>)
endforeach()
set_target_properties(libpilotfish PROPERTIES OUTPUT_NAME pilotfish LINKER_LANGUAGE C)
install(TARGETS libpilotfish ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

pf_header_closure(headers ${PF_PUBLIC_HEADERS})
foreach(header IN LISTS headers)
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${CMAKE_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/pilotfish/${folder})
endforeach()

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
configure_file(${CMAKE_SOURCE_DIR}/cmake/pilotfish.pc.in ${CMAKE_BINARY_DIR}/pilotfish.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/pilotfish.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS pilotfish RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${CMAKE_SOURCE_DIR}/models/prompts.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/pilotfish/models)
install(FILES ${CMAKE_SOURCE_DIR}/docs/pilotfish.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
