/* The run delay of the process. */
#include "base/run_delay.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "tests/support/test.h"

enum { BUSY_NS = 60 * 1000 * 1000 };

static void compute(uint64_t ns)
{
    const uint64_t begin_ns = pf_now_ns();
    while (pf_now_ns() - begin_ns < ns) {}
}

static int32_t first_cpu(void)
{
    pf_cpus cpus;
    if (!pf_cpus_of_thread(&cpus)) return -1;
    int32_t cpu = 0;
    while (!pf_cpus_has(&cpus, cpu)) cpu++;
    return cpu;
}

/* Two processes on one CPU: each waits while the other runs. */
static void a_process_that_shares_its_cpu_waits_about_as_long_as_it_runs(void **state)
{
    (void)state;
    uint64_t run[2], delay[2];
    const int32_t cpu = first_cpu();
    if (cpu < 0 || !pf_run_delay_read(&run[0], &delay[0])) skip();
    pf_cpus_pin_thread(cpu);
    const pid_t other = fork();
    assert_true(other >= 0);
    if (other == 0) {
        compute(4 * (uint64_t)BUSY_NS);
        _exit(0);
    }
    compute(2 * (uint64_t)BUSY_NS);
    assert_true(pf_run_delay_read(&run[1], &delay[1]));
    pf_cpus_unpin_thread();
    assert_int_equal(waitpid(other, NULL, 0), other);
    assert_true(run[1] > run[0]);
    assert_true(delay[1] - delay[0] > BUSY_NS / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_shares_its_cpu_waits_about_as_long_as_it_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
