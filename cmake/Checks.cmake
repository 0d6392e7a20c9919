# The checks of the tree itself that are quick enough to be tests. The rest, format and clang-tidy, is in `./dev check`.
function(pf_check name)
    add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS quick SKIP_RETURN_CODE 77)
endfunction()

if(PF_TESTS AND NOT PF_SANITIZE)   # sanitizers have nothing to say about the tree, and add symbols of their own
    pf_check(check_includes ${PYTHON3} scripts/check-includes.py)
    pf_check(check_names ${PYTHON3} scripts/check-names.py)
    pf_check(check_text ${PYTHON3} scripts/check-text.py)
    pf_check(check_language ${PYTHON3} scripts/check-language.py)
    pf_check(check_docs_data ${PYTHON3} scripts/docs-data.py --check)
    pf_check(check_headers scripts/check-headers.sh ${CMAKE_C_COMPILER})
    pf_check(check_symbols ${PYTHON3} scripts/check-symbols.py ${CMAKE_BINARY_DIR})
    pf_check(check_prefetches ${PYTHON3} scripts/check-prefetches.py ${CMAKE_BINARY_DIR})
    pf_check(checks_test ${PYTHON3} tests/e2e/checks_test.py ${CMAKE_C_COMPILER})
    pf_check(dev_test ${PYTHON3} tests/e2e/dev_test.py)
    pf_check(train_stages_test ${PYTHON3} tests/e2e/train_stages_test.py)
endif()

# Tests that are scripts run the binary.
if(TARGET quick-tests)
    add_dependencies(quick-tests pilotfish)
endif()
if(PF_TESTS AND NOT PF_SANITIZE)
    add_test(NAME install_test COMMAND tests/e2e/install_test.sh ${CMAKE_BINARY_DIR} ${CMAKE_C_COMPILER}
             WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(install_test PROPERTIES TIMEOUT 300 LABELS quick)
    pf_label_targets(libpilotfish quick)
    pf_label_targets(pilotfish_shared quick)
endif()
