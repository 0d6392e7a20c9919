#include "base/cpus.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/team.h"
#include "base/topology.h"
#include "tests/support/test.h"

/* libc's, on a kernel that has room for as many CPUs. */
static size_t kernel_cpus = CPU_SETSIZE;

int sched_getaffinity(pid_t tid, size_t bytes, cpu_set_t *out)
{
    memset(out, 0, bytes);
    errno = EINVAL;
    return bytes * 8 < kernel_cpus || syscall(SYS_sched_getaffinity, tid, bytes, out) < 0 ? -1 : 0;
}

static void a_set_has_what_was_added_and_nothing_beyond_it(void **state)
{
    (void)state;
    static const int32_t added[] = { 0, CPU_SETSIZE - 1, CPU_SETSIZE, PF_MAX_CPUS - 1 };
    pf_cpus cpus = { 0 };
    for (size_t i = 0; i < PF_COUNT(added); i++) {
        assert_false(pf_cpus_has(&cpus, added[i]));
        pf_cpus_add(&cpus, added[i]);
        assert_true(pf_cpus_has(&cpus, added[i]));
        assert_int_equal(pf_cpus_count(&cpus), i + 1);
    }
    assert_false(pf_cpus_has(&cpus, -1));
    assert_false(pf_cpus_has(&cpus, PF_MAX_CPUS));
    assert_false(pf_cpus_has(&cpus, INT32_MAX));
}

static void as_many_cpus_as_linux_has_room_for_can_be_read(void **state)
{
    (void)state;
    static int32_t cpus[PF_MAX_CPUS];
    int32_t n = 0;
    pf_team *team = NULL;
    pf_error error;
    kernel_cpus = PF_MAX_CPUS;
    const pf_status listed = pf_topology_list_cpus(cpus, PF_MAX_CPUS, &n, &error);
    const pf_status made = pf_team_create(2, NULL, 0, &team, &error);
    kernel_cpus = CPU_SETSIZE;
    pf_team_destroy(team);
    assert_int_equal(listed, PF_OK);
    assert_int_equal(made, PF_OK);
    assert_true(n >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_has_what_was_added_and_nothing_beyond_it),
        cmocka_unit_test(as_many_cpus_as_linux_has_room_for_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
