# The checks of the tree itself that are quick enough to be tests. The rest, format and clang-tidy, is in `./dev check`.
function(pf_check name)
    add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES TIMEOUT 120 LABELS quick SKIP_RETURN_CODE 77)
endfunction()

if(PF_TESTS)
    pf_check(check_includes ${PYTHON3} scripts/check-includes.py)
    pf_check(check_names ${PYTHON3} scripts/check-names.py)
    pf_check(check_text ${PYTHON3} scripts/check-text.py)
    pf_check(check_headers scripts/check-headers.sh ${CMAKE_C_COMPILER})
    if(NOT PF_SANITIZE)   # which adds symbols of its own
        pf_check(check_symbols ${PYTHON3} scripts/check-symbols.py ${CMAKE_BINARY_DIR})
    endif()
endif()
