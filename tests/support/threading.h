/*
 * Creates the team of a test on the threading that ctest asks for: own threads, or OpenMP where PF_TEST_THREADING is "openmp".
 * A test that uses this is registered twice (OPENMP of pf_test in cmake/Modules.cmake).
 */
#ifndef PF_TESTS_THREADING_H
#define PF_TESTS_THREADING_H

#include <stdlib.h>
#include <string.h>

#include "base/team.h"

static inline pf_threading pf_test_threading(void)
{
    const char *word = getenv("PF_TEST_THREADING");
    return word && strcmp(word, "openmp") == 0 ? PF_THREADING_OPENMP : PF_THREADING_OWN;
}

PF_MUST_USE static inline pf_status pf_test_team_create(int32_t n_threads, pf_team **out, pf_error *error)
{
    return pf_team_create_on(pf_test_threading(), n_threads, NULL, 0, out, error);
}

#endif
