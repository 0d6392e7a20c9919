#include "tests/support/test.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/topology.h"

static void the_machine_makes_sense(void **state)
{
    (void)state;
    pf_topology t;
    pf_error error;
    assert_ok(pf_topology_read(&t, &error), error);
    assert_in_range(t.n_cpus, 1, sysconf(_SC_NPROCESSORS_CONF));
    assert_in_range(t.n_cores, 1, t.n_cpus);
    assert_true(t.n_numa_nodes >= 1);
    assert_true(t.memory_bytes >= (size_t)16 << 20);
    assert_true(t.memory_bytes <= (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE));
    assert_true(t.l1d_bytes == 0 || t.l2_bytes == 0 || t.l1d_bytes <= t.l2_bytes);
}

static void a_process_that_is_bound_to_one_cpu_sees_one(void **state)
{
    (void)state;
    const pid_t child = fork(); /* of one thread, whose binding does not outlive the test */
    assert_true(child >= 0);
    if (child == 0) {
        cpu_set_t set;
        pf_topology t;
        if (sched_getaffinity(0, sizeof set, &set) != 0) _exit(1);
        size_t cpu = 0;
        while (!CPU_ISSET(cpu, &set)) cpu++;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0 || pf_topology_read(&t, NULL) != PF_OK) _exit(2);
        _exit(t.n_cpus == 1 && t.n_cores == 1 ? 0 : 3);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void lists_of_cores_are_numbers_and_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        int32_t n, cores[5];
    } cases[] = {
        { "0", 1, { 0 } },
        { "0,2-5", 5, { 0, 2, 3, 4, 5 } },
        { "7-7,1", 2, { 7, 1 } },
        { "3,3", 2, { 3, 3 } },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        int32_t cores[5] = { 0 }, n;
        pf_error error;
        assert_ok(pf_topology_parse_cores(cases[i].list, cores, 5, &n, &error), error);
        assert_int_equal(n, cases[i].n);
        assert_memory_equal(cores, cases[i].cores, sizeof cores);
    }
}

static void the_wrong_part_of_a_list_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *list, *part;
    } cases[] = {
        { "", "\"\"" },         { ",", "\"\"" },          { "1,,2", "\"\"" },
        { "1,", "\"\"" },       { "0,x", "\"x\"" },       { "0,5-2,1", "\"5-2\"" },
        { "1-", "\"1-\"" },     { "-1", "\"-1\"" },       { "1-2-3", "\"1-2-3\"" },
        { "0, 1", "\" 1\"" },   { "+1", "\"+1\"" },       { "99999999999", "\"99999999999\"" },
        { "0-3", "at most 3" }, { "0-1,4-5", "\"4-5\"" }, { "0-1000000", "at most 3" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        int32_t cores[3], n = 77;
        pf_error error;
        assert_status(pf_topology_parse_cores(cases[i].list, cores, 3, &n, &error), PF_INVALID);
        assert_says(error, cases[i].part);
        assert_int_equal(n, 77);
    }
}

static void threads_are_as_many_as_said_as_the_cpus_named_or_as_the_cores(void **state)
{
    (void)state;
    const pf_topology machine = { .n_cores = 64, .n_cpus = 128 };
    assert_int_equal(pf_topology_threads(&machine, 3, 4), 3);
    assert_int_equal(pf_topology_threads(&machine, 0, 4), 4);
    assert_int_equal(pf_topology_threads(&machine, 0, 0), 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_machine_makes_sense),
        cmocka_unit_test(a_process_that_is_bound_to_one_cpu_sees_one),
        cmocka_unit_test(lists_of_cores_are_numbers_and_ranges),
        cmocka_unit_test(the_wrong_part_of_a_list_is_named),
        cmocka_unit_test(threads_are_as_many_as_said_as_the_cpus_named_or_as_the_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
