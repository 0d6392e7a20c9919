/* What gRPC finds set when it begins. */
#include "rpc/grpc_util.h"
#include "tests/support/test.h"

static int n_calls, last_mode = -1;

/* In the place of Abseil's own. */
void set_mode(int mode) __asm__(PF_ABSEIL_DEADLOCK_MODE);
void set_mode(int mode)
{
    n_calls++;
    last_mode = mode;
}

static void locks_are_not_looked_at_for_deadlocks(void **state)
{
    (void)state;
    pf_error error;
    assert_ok(pf_grpc_begin(&error), error);
    grpc_shutdown_blocking();
    assert_int_equal(n_calls, 1);
    assert_int_equal(last_mode, 0); /* absl::OnDeadlockCycle::kIgnore */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(locks_are_not_looked_at_for_deadlocks) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
