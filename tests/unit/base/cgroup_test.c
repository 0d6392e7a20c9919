#include "tests/support/test.h"

#include "base/cgroup.h"
#include "tests/support/temp_dir.h"

typedef struct {
    const char *name, *text;
} file;

static pf_cgroup_limits read_tree(const file *files, size_t n_files)
{
    pf_temp_dir dir;
    pf_temp_dir_make(&dir);
    for (size_t i = 0; i < n_files; i++) pf_temp_write(&dir, files[i].name, files[i].text, strlen(files[i].text));
    const pf_cgroup_limits limits = pf_cgroup_read(dir.path);
    pf_temp_dir_remove(&dir);
    return limits;
}

static void where_there_are_no_groups_nothing_is_limited(void **state)
{
    (void)state;
    const pf_cgroup_limits limits = read_tree(NULL, 0);
    assert_int_equal(limits.cpus, INT32_MAX);
    assert_true(limits.memory_bytes == SIZE_MAX);
}

static void version_2_takes_the_least_of_the_group_and_those_above_it(void **state)
{
    (void)state;
    const file files[] = {
        { "proc/self/cgroup", "0::/a.slice/b\n" },
        { "sys/fs/cgroup/a.slice/b/cpu.max", "max 100000\n" },
        { "sys/fs/cgroup/a.slice/b/memory.max", "3000000\n" },
        { "sys/fs/cgroup/a.slice/cpu.max", "250000 100000\n" }, /* 2.5 CPUs: 2 threads are not throttled */
        { "sys/fs/cgroup/a.slice/memory.max", "max\n" },
        { "sys/fs/cgroup/memory.max", "9000000\n" },
    };
    const pf_cgroup_limits limits = read_tree(files, PF_COUNT(files));
    assert_int_equal(limits.cpus, 2);
    assert_int_equal(limits.memory_bytes, 3000000);
}

static void version_1_reads_the_controllers_own_hierarchies(void **state)
{
    (void)state;
    const file files[] = {
        { "proc/self/cgroup", "9:memory:/docker/1f\n4:cpu,cpuacct:/docker/1f\n1:name=systemd:/x\n2:cpuset:/y\n" },
        { "sys/fs/cgroup/cpu/y/cpu.cfs_quota_us", "100000\n" }, /* of that name in a hierarchy that is not ours */
        { "sys/fs/cgroup/cpu/y/cpu.cfs_period_us", "100000\n" },
        { "sys/fs/cgroup/cpu/docker/1f/cpu.cfs_quota_us", "-1\n" },
        { "sys/fs/cgroup/cpu/docker/1f/cpu.cfs_period_us", "100000\n" },
        { "sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "400000\n" },
        { "sys/fs/cgroup/cpu/docker/cpu.cfs_period_us", "100000\n" },
        { "sys/fs/cgroup/memory/docker/1f/memory.limit_in_bytes", "5000000\n" },
    };
    const pf_cgroup_limits limits = read_tree(files, PF_COUNT(files));
    assert_int_equal(limits.cpus, 4);
    assert_int_equal(limits.memory_bytes, 5000000);
}

static void a_path_that_the_container_does_not_see_ends_at_the_mount(void **state)
{
    (void)state;
    const char *paths[] = { "0::/host/only\n", "0::/../../x\n", "0::/\n" };
    for (size_t i = 0; i < PF_COUNT(paths); i++) {
        const file files[] = { { "proc/self/cgroup", paths[i] },
                               { "sys/fs/cgroup/cpu.max", "300000 100000\n" },
                               { "sys/fs/cpu.max", "100000 100000\n" } }; /* outside of the mount */
        assert_int_equal(read_tree(files, PF_COUNT(files)).cpus, 3);
    }
}

static void less_than_one_cpu_is_one_and_malformed_limits_are_ignored(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int32_t cpus;
    } cases[] = { { "50000 100000\n", 1 }, { "-5 100000\n", INT32_MAX }, { "5 0\n", INT32_MAX },
                  { "", INT32_MAX },       { "elephants\n", INT32_MAX }, { "9000000000000000000 1\n", INT32_MAX } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        const file files[] = { { "proc/self/cgroup", "0::/\n" }, { "sys/fs/cgroup/cpu.max", cases[i].text } };
        assert_int_equal(read_tree(files, PF_COUNT(files)).cpus, cases[i].cpus);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_there_are_no_groups_nothing_is_limited),
        cmocka_unit_test(version_2_takes_the_least_of_the_group_and_those_above_it),
        cmocka_unit_test(version_1_reads_the_controllers_own_hierarchies),
        cmocka_unit_test(a_path_that_the_container_does_not_see_ends_at_the_mount),
        cmocka_unit_test(less_than_one_cpu_is_one_and_malformed_limits_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
