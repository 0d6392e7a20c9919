/* Options: what a command has for one that was not given, and what becomes of a number. */
#include "cli/options.h"
#include "tests/support/test.h"

#include <math.h>

/* `pilotfish try`, a command of one group, with one more argument or none. */
static pf_options parse(const pf_option_group *group, char *argument)
{
    const pf_option_group *const groups[] = { group, NULL };
    const pf_command command = { .name = "try", .groups = groups };
    char name[] = "try", *argv[] = { name, argument, NULL };
    pf_options options;
    bool help = true;
    assert_int_equal(pf_options_parse(&command, argument ? 2 : 1, argv, &options, &help, NULL), PF_EXIT_DONE);
    assert_false(help);
    return options;
}

static void a_draft_has_a_full_head_unless_another_is_asked_for_and_a_targets_is_open(void **state)
{
    (void)state;
    char screened[] = "--head=screened", draft_screened[] = "--draft-head=screened", full[] = "--head=full";
    assert_string_equal(parse(&pf_options_draft_head, NULL).head, "full");
    assert_string_equal(parse(&pf_options_draft_head, screened).head, "screened");
    assert_string_equal(parse(&pf_options_draft_running, NULL).draft_head, "full");
    assert_string_equal(parse(&pf_options_draft_running, draft_screened).draft_head, "screened");
    assert_string_equal(parse(&pf_options_pass, NULL).head, "full");
    assert_null(parse(&pf_options_target_head, NULL).head);
    assert_string_equal(parse(&pf_options_target_head, full).head, "full");
    assert_null(parse(&pf_options_head, NULL).head);
}

static void a_zero_has_no_sign(void **state)
{
    (void)state;
    char minus[] = "--temperature=-0", least[] = "--temperature=-1e-999", list[] = "--temperature=0.5,-0.0";
    assert_false(signbit(parse(&pf_options_sampling, minus).sampling.temperature));
    assert_false(signbit(parse(&pf_options_sampling, least).sampling.temperature));
    assert_false(signbit(parse(&pf_options_acceptance, list).temperatures[1]));
    assert_int_equal(parse(&pf_options_acceptance, list).n_temperatures, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_draft_has_a_full_head_unless_another_is_asked_for_and_a_targets_is_open),
        cmocka_unit_test(a_zero_has_no_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
