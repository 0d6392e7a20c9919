/* What the library says of itself. Compiled without the engine, which a release build links to oneDNN and its OpenMP runtime, and
 * without CUDA. */
#include <dlfcn.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/openmp.h"
#include "include/pilotfish.h"
#include "tests/support/test.h"

/* In a child, since a runtime that was found stays loaded. Without a file descriptor none can be. */
static bool child_has_openmp(bool may_open_files)
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!may_open_files) setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, 0 });
        _exit(pf_has_feature("openmp"));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void openmp_is_a_feature_where_a_runtime_is_found(void **state)
{
    (void)state;
    /* A library that this program is linked to may have loaded one. */
    assert_int_equal(child_has_openmp(false), dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD) != NULL);
    pf_openmp openmp;
    const bool has_openmp = child_has_openmp(true);
    assert_int_equal(has_openmp, pf_openmp_find(&openmp, NULL) == PF_OK);
    assert_int_equal(pf_has_feature("openmp"), has_openmp);
    assert_false(pf_has_feature("cuda"));
    assert_false(pf_has_feature(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(openmp_is_a_feature_where_a_runtime_is_found) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
